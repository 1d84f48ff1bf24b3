#!/usr/bin/env bash
# Brings up the real docker-compose.yml with the real images of this repository, on stand-ins for the base images that it
# names (deploy/compose/standin), in a Docker engine of its own. What passes proves our wiring and our images, not the
# named base images. Needs root, dockerd and debootstrap; `make test-compose` calls it.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
cache=$root/bin/.compose # stand-ins and the engine's own store: kept, so that the next run is quick
work=$(mktemp -d /tmp/echomind-compose-XXXXXX)
mkdir -p "$cache/plugins/cli-plugins" "$cache/tools"
export DOCKER_HOST=unix://$work/docker.sock DOCKER_CONFIG=$cache/plugins DOCKER_BUILDKIT=1
export COMPOSE_FILE=$work/checkout/docker-compose.yml
PATH=/usr/bin:$PATH # dockerd's own client, which needs no plugin to build
step() { echo; echo "== $* ($((SECONDS)) s)"; }

finish() {
  code=$?
  if [ $code -ne 0 ]; then
    docker compose ps -a || true
    docker compose logs --no-color --tail 40 || true
    tail -n 20 "$work/dockerd.log" || true
  fi
  docker compose --profile observability --profile cli down -v --remove-orphans >/dev/null 2>&1 || true
  if [ -s "$work/dockerd.pid" ]; then
    kill "$(cat "$work/dockerd.pid")" || true
    for _ in $(seq 100); do [ -e "$work/dockerd.pid" ] || break; sleep 0.1; done
  fi
  rm -rf "$work" || true
  [ $code -eq 0 ] && echo "passed in $SECONDS s: our wiring and our images, on stand-ins for the base images" || echo "FAILED"
  exit $code
}
trap finish EXIT

step "a Docker engine"
dockerd --data-root "$cache/engine" --exec-root "$work/exec" --pidfile "$work/dockerd.pid" -H "$DOCKER_HOST" >"$work/dockerd.log" 2>&1 &
for _ in $(seq 100); do docker version >/dev/null 2>&1 && break; sleep 0.2; done
docker version --format '{{.Server.Version}}'
install -D "$root/bin/tools/docker-compose" "$cache/plugins/cli-plugins/docker-compose"

step "stand-ins for the base images"
if [ ! -s "$cache/debian.tar" ]; then
  debootstrap --variant=minbase --include=ca-certificates,postgresql-15,prometheus,busybox-static,gosu bookworm "$work/debian" >"$work/debootstrap.log"
  tar -C "$work/debian" --exclude=./var/cache/apt --exclude=./var/lib/apt -cf "$cache/debian.tar.new" .
  mv "$cache/debian.tar.new" "$cache/debian.tar"
fi
docker image inspect standin/debian >/dev/null 2>&1 || docker import "$cache/debian.tar" standin/debian >/dev/null
CGO_ENABLED=0 go build -o "$cache/tools/nats-server" github.com/nats-io/nats-server/v2
names() { sed -n "s/.*\${$1:-\([^}]*\)}.*/\1/p" docker-compose.yml | sort -u | head -n 1; }
cp -r deploy/compose/standin "$work/standin"
cp "$cache/tools/nats-server" "$work/standin/"
cp -r "$(go env GOROOT)" "$work/standin/go"
cp "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$work/standin/ca-certificates.crt" # this machine's way to Go modules
for target in go:GO_IMAGE postgres:POSTGRES_IMAGE nats:NATS_IMAGE prometheus:PROMETHEUS_IMAGE; do
  image=$(names "${target#*:}")
  echo "$image"
  docker build -q --target "${target%:*}" -t "$image" "$work/standin" >/dev/null
done
rm -rf "$work/standin"

step "a fresh checkout: it says what to do first"
git clone -q . "$work/checkout"
git -c core.quotepath=off diff --name-only HEAD -z | xargs -0 -r -I{} cp --parents {} "$work/checkout/" 2>/dev/null || true
git ls-files -z --others --exclude-standard | xargs -0 -r -I{} cp --parents {} "$work/checkout/"
cd "$work/checkout"
if docker compose config >/dev/null 2>"$work/refused"; then echo "it starts without passwords"; exit 1; fi
grep -o "there is no .env; run make up.*" "$work/refused" | head -n 1
export GOPROXY=$(go env GOPROXY) ECHOMIND_VERSION=v0.0.0-test ECHOMIND_COMMIT=test
deploy/compose/env.sh
[ "$(stat -c %a .env)" = 600 ]

step "images"
make images VERSION=$ECHOMIND_VERSION COMMIT=$ECHOMIND_COMMIT DOCKER_BUILD="docker build -q --network host"
docker images --format '{{.Repository}} {{.Size}}' 'echomind/*' | sort
for program in scheduler chunker connector semantic cli; do
  size=$(docker image inspect --format '{{.Size}}' echomind/$program:$ECHOMIND_VERSION)
  [ "$size" -lt $((40 * 1024 * 1024)) ] || { echo "echomind/$program has $size bytes"; exit 1; }
  [ "$(docker image inspect --format '{{.Config.User}}' echomind/$program:$ECHOMIND_VERSION)" = 65532:65532 ]
done
docker run --rm --network none echomind/scheduler:$ECHOMIND_VERSION --version | grep 'v0.0.0-test commit test'

step "up"
docker compose up -d --wait --wait-timeout 120
docker compose ps --format '{{.Service}}: {{.Status}}'

step "no port is open beyond loopback"
open=$(docker compose ps --format '{{.Ports}}' | tr ',' '\n' | grep -- '->' | grep -v '127\.0\.0\.1:' || true)
[ -z "$open" ] || { echo "$open"; exit 1; }

step "a connector becomes ACTIVE"
deploy/compose/smoke.sh

step "NATS refuses who has no password, and users what is not theirs"
refused=$(docker compose run --rm -T -e NATS_USER= -e NATS_PASSWORD= echomind streams show 2>&1 || true)
grep -i "authorization" <<<"$refused"
refused=$(docker compose run --rm -T echomind streams apply --max-document-bytes 1000000 2>&1 || true)
grep "may not" <<<"$refused"

step "a killed service comes back, and the next sync works"
docker compose kill -s KILL chunker semantic
docker compose up -d --wait --wait-timeout 60
deploy/compose/smoke.sh >/dev/null

step "down and up: what is stored stays"
run() { docker compose run --rm -T echomind "$@"; }
id=$(run connectors add --name kept --type file --user 1 --config '{"url":"file:///files"}' --refresh manual)
run connectors trigger "$id" --wait >/dev/null
docker compose down
docker compose up -d --wait --wait-timeout 120
run search --user 1 lease | sed -n 1,3p
[ "$(run connectors list -o json | grep -c '"name": "kept"')" = 1 ]

step "up again changes nothing"
before=$(docker compose ps -q | sort)
docker compose up -d --wait --wait-timeout 60
[ "$before" = "$(docker compose ps -q | sort)" ]

step "a wiped NATS volume: setup makes the streams again"
docker compose rm -sf nats nats-volume setup >/dev/null
docker volume rm echomind_nats >/dev/null
docker compose up -d --wait --wait-timeout 120
run connectors trigger "$id" --wait

step "Prometheus sees every service, and loads every rule"
docker compose --profile observability up -d --wait --wait-timeout 60 prometheus
ask() { docker compose exec -T prometheus wget -q -O - "http://127.0.0.1:9090/api/v1/$1"; }
for _ in $(seq 60); do
  up=$(ask 'query?query=sum(up)' | sed -n 's/.*"value":\[[^,]*,"\([0-9]*\)"\].*/\1/p')
  [ "${up:-0}" = 4 ] && break
  sleep 1
done
[ "${up:-0}" = 4 ] || { ask targets | head -c 3000; exit 1; }
[ "$(ask rules | grep -o '"health":"[a-z]*"' | sort -u)" != '"health":"err"' ]
echo "$(ask rules | grep -o '"type":"alerting"' | wc -l) alert rules are loaded"
