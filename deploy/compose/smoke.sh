#!/bin/sh
# Adds a connector for what is mounted as /files, waits until it is ACTIVE, and searches. Run in the root of the repository.
set -eu
echomind() { docker compose run --rm -T echomind "$@"; }
id=$(echomind connectors add --name smoke --type file --user 1 --config '{"url":"file:///files"}' --refresh manual)
echomind connectors trigger "$id" --wait
status=$(echomind connectors get "$id" -o json | sed -n 's/.*"status": "\([A-Z]*\)".*/\1/p' | head -n 1)
if [ "$status" != ACTIVE ]; then
  echo "connector $id is $status:"
  echomind why "$id"
  exit 1
fi
echomind search --user 1 "${1:-lease}"
echomind connectors delete "$id" --yes >/dev/null
echo "connector $id became ACTIVE"
