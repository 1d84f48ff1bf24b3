#!/bin/sh
# Writes .env with a fresh password for everybody, unless it is there. Run in the root of the repository.
set -eu
if [ -e .env ]; then exit 0; fi
random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
umask 077
{
  echo "# Made by deploy/compose/env.sh. Keep it: the volumes were made with these passwords, and without SECRETS_KEY the"
  echo "# connectors' secrets cannot be read any more."
  for who in POSTGRES POSTGRES_SERVICE GRAFANA NATS_SCHEDULER NATS_CHUNKER NATS_CONNECTOR NATS_SEMANTIC NATS_SETUP NATS_OPERATOR; do
    echo "${who}_PASSWORD=p$(random)" # a letter first: nats.conf would take digits for a number
  done
  echo "SECRETS_KEY=$(head -c 32 /dev/urandom | base64 | tr -d '\n')"
} > .env.new
mv .env.new .env
echo "wrote .env with fresh passwords"
