#!/usr/bin/env bash
# The second half of deploy/compose/test.sh, in namespaces of its own: a Docker engine, the stand-ins, and the checks.
set -euo pipefail
work=$1 cache=$2
cd "$work/checkout"
export DOCKER_HOST=unix://$work/docker.sock DOCKER_BUILDKIT=1
PATH=/usr/bin:$PATH # the client that came with dockerd, and needs no plugin to build
ip link set lo up
wipe() {
  docker ps -aq | xargs -r docker rm -f -v
  docker volume ls -q | xargs -r docker volume rm
  docker network prune -f
  docker images -q --filter reference='echomind/*' | sort -u | xargs -r docker rmi -f
  docker image prune -f
} >/dev/null
cleanup() {
  code=$?
  if [ $code -ne 0 ]; then
    docker compose --profile '*' ps -a || true
    docker compose --profile '*' logs --no-color --tail 40 || true
    grep -v level=info "$work/dockerd.log" | tail -n 20 || true
    echo "FAILED after $SECONDS s"
  fi
  wipe || true
  if [ -s "$work/dockerd.pid" ]; then
    kill "$(cat "$work/dockerd.pid")" && wait || true
  fi
  exit $code
}
trap cleanup EXIT

echo "== a Docker engine"
rm -rf "$cache/engine/containers" # of a run that was killed: they would come up again
gateway=10.200.0.1
dockerd --bip "$gateway/24" --data-root "$cache/engine" --exec-root "$work/exec" --pidfile "$work/dockerd.pid" -H "$DOCKER_HOST" >"$work/dockerd.log" 2>&1 &
for _ in $(seq 100); do docker version >/dev/null 2>&1 && break; sleep 0.2; done
docker version --format '{{.Server.Version}}'
wipe

echo "== stand-ins for the base images"
docker image inspect standin/debian >/dev/null 2>&1 || docker import "$cache/debian.tar" standin/debian >/dev/null
for target in go:GO_IMAGE postgres:POSTGRES_IMAGE nats:NATS_IMAGE prometheus:PROMETHEUS_IMAGE \
    grafana:GRAFANA_IMAGE jaeger:JAEGER_IMAGE qdrant:QDRANT_IMAGE; do
  image=$(sed -n "s/.*\${${target#*:}:-\([^}]*\)}.*/\1/p" docker-compose.yml | head -n 1)
  echo "$image"
  docker build -q --target "${target%:*}" -t "$image" "$work/standin" >/dev/null
done
# A proxy for Go modules, where builds see it.
docker run -d --name modules --network host -v "$MODULES:/modules:ro" standin/debian busybox httpd -f -p "$gateway:8081" -h /modules >/dev/null
export GOPROXY=http://$gateway:8081

deploy/compose/checks.sh
