#!/bin/sh
# Writes a fresh password for everybody into .env, and leaves those that are there. Run in the root of the repository.
set -eu
case "$*" in
  "") ;;
  --help | -h)
    echo "usage: deploy/compose/env.sh"
    echo "Writes a fresh password for everybody, and SECRETS_KEY, into .env of this folder; what is there stays as it is."
    exit 0 ;;
  *)
    echo "env.sh takes no arguments but --help, and was given: $*" >&2
    exit 2 ;;
esac
umask 077
if [ ! -e .env ]; then
  echo "# Made by deploy/compose/env.sh. Keep it: the volumes were made with these passwords, and without SECRETS_KEY the" > .env
  echo "# connectors' secrets cannot be read any more." >> .env
fi
[ -z "$(tail -c 1 .env)" ] || echo >> .env # somebody's editor left the last line open
# missing VARIABLE: whether .env does not set it yet.
missing() { ! grep -q "^$1=" .env; }
for who in POSTGRES POSTGRES_SCHEDULER POSTGRES_CHUNKER POSTGRES_CONNECTOR POSTGRES_SEMANTIC POSTGRES_API POSTGRES_CONSOLE POSTGRES_GRAFANA \
    QDRANT GRAFANA NATS_SCHEDULER NATS_CHUNKER NATS_CONNECTOR NATS_SEMANTIC NATS_API NATS_SETUP NATS_OPERATOR; do
  if missing "${who}_PASSWORD"; then
    # A letter first: nats.conf would take digits for a number.
    echo "${who}_PASSWORD=p$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')" >> .env
    echo "made ${who}_PASSWORD"
  fi
done
if missing SECRETS_KEY; then
  echo "SECRETS_KEY=$(head -c 32 /dev/urandom | base64 | tr -d '\n')" >> .env
  echo "made SECRETS_KEY"
fi
