#!/usr/bin/env bash
# Brings up the real docker-compose.yml with the real images of this repository, on stand-ins for the base images that it
# names (deploy/compose/standin), in a Docker engine of its own. What passes proves our wiring and our images, not the
# named base images. `make test-compose` calls it.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || { echo "only root may run a Docker engine"; exit 2; }
for tool in dockerd debootstrap unshare ip; do
  command -v $tool >/dev/null || { echo "there is no $tool (Debian: apt-get install docker.io debootstrap iproute2)"; exit 2; }
done
cache=$PWD/bin/.compose # the stand-ins and the engine's own store stay, so that the next run is quick; it may be deleted
work=$(mktemp -d /tmp/echomind-compose-XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir -p "$cache/plugins/cli-plugins" "$work/checkout" "$work/standin"

echo "== what the stand-ins are made of"
if [ ! -s "$cache/debian.tar" ]; then
  debootstrap --variant=minbase --include=ca-certificates,postgresql-15,prometheus,busybox-static bookworm "$work/debian" >"$work/debootstrap.log"
  tar -C "$work/debian" --exclude=./var/cache/apt --exclude=./var/lib/apt -cf "$cache/debian.tar.new" .
  mv "$cache/debian.tar.new" "$cache/debian.tar"
  rm -rf "$work/debian"
fi
cp deploy/compose/standin/* "$work/standin/"
CGO_ENABLED=0 go build -o "$work/standin/nats-server" github.com/nats-io/nats-server/v2
CGO_ENABLED=0 go build -o "$work/standin/qdrant" ./internal/search/qdrant/standin/cmd/qdrant
cp -r "$(go env GOROOT)" "$work/standin/go"
install -D bin/tools/docker-compose "$cache/plugins/cli-plugins/docker-compose"
for program in services/*/cmd/* cmd/echomind; do
  GOWORK=off go list -C "$program" -deps . >/dev/null # the images are built from this machine's module cache, without a network
done

# A fresh clone of what would be committed.
git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --ignore-failed-read -cf - 2>/dev/null | tar -xf - -C "$work/checkout"

# A network of its own disturbs no other engine on this machine and needs none of its ports; what is in there reaches
# nothing outside. When its first process ends, everything in there does, mounts included.
DOCKER_CONFIG=$cache/plugins MODULES=$(go env GOMODCACHE)/cache/download \
  unshare --net --pid --mount --mount-proc --fork --kill-child deploy/compose/standin/engine.sh "$work" "$cache" &
engine=$!
trap 'kill -KILL $engine 2>/dev/null || true; wait || true; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
wait $engine
echo
echo "passed in $SECONDS s: our wiring and our images, on stand-ins for the base images"
