#!/usr/bin/env bash
# What `make test-compose` asserts. It runs in a fresh checkout and has a Docker engine to itself.
set -euo pipefail
step() { echo; echo "== $* ($SECONDS s)"; }
run() { docker compose run --rm -T echomind "$@"; }
export ECHOMIND_VERSION=v0.0.0-test
tag=$ECHOMIND_VERSION

step "a fresh checkout says what to do first"
if docker compose up -d 2>refused; then echo "it starts without passwords"; exit 1; fi
grep "deploy/compose/env.sh, writes it into .env" refused

step "make up: passwords, images, everything healthy"
make up COMMIT=0123abc
docker compose ps --format '{{.Service}}: {{.Status}}'
[ "$(stat -c %a .env)" = 600 ]

step "a connector becomes ACTIVE"
deploy/compose/smoke.sh

step "make up once more changes nothing"
before=$(docker compose ps -q | sort; cat .env)
make up COMMIT=0123abc
[ "$before" = "$(docker compose ps -q | sort; cat .env)" ]

step "images: small, one static program, nobody's root, the same when built again"
for image in scheduler chunker connector semantic api cli; do
  size=$(docker image inspect --format '{{.Size}}' echomind/$image:$tag)
  echo "echomind/$image $((size / 100000 / 10)).$((size / 100000 % 10)) MB"
  [ "$size" -lt 45000000 ] || { echo "that is more than 45 MB"; exit 1; }
  [ "$(docker image inspect --format '{{.Config.User}}' echomind/$image:$tag)" = 65532:65532 ]
  [ "$(docker image inspect --format '{{index .Config.Labels "org.opencontainers.image.revision"}}' echomind/$image:$tag)" = 0123abc ]
  [ "$image" = cli ] || [ "$(docker image inspect --format '{{index .Config.Healthcheck.Test 2}}' echomind/$image:$tag)" = health ]
  docker run --rm --network none --read-only echomind/$image:$tag --version | grep "$tag commit 0123abc"
done
sums() {
  docker build -q --target build -t echomind/build:$tag --build-arg GOPROXY --build-arg VERSION=$tag --build-arg COMMIT=0123abc . >/dev/null
  docker run --rm echomind/build:$tag sh -c 'cd /out && sha256sum *'
}
first=$(sums)
touch what-no-program-contains # so that docker builds again
[ "$first" = "$(sums)" ]
rm what-no-program-contains
echo "$first"
make images VERSION=$tag-made COMMIT=0123abc DOCKER_BUILD="docker build -q" >/dev/null
docker run --rm echomind/scheduler:$tag-made --version

step "no port is open beyond loopback, and who needs no internet has none"
open=$(docker compose ps --format '{{.Ports}}' | tr ',' '\n' | grep -- '->' | grep -v '127\.0\.0\.1:' || true)
[ -z "$open" ] || { echo "$open"; exit 1; }
(exec 3<>/dev/tcp/127.0.0.1/5432) && (exec 3<>/dev/tcp/127.0.0.1/4222) && (exec 3<>/dev/tcp/127.0.0.1/8080) # but there they are open
networks() { docker inspect --format '{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}' "$(docker compose ps -q "$1")"; }
for service in scheduler semantic; do [ "$(networks $service)" = "echomind_backend " ]; done
[ "$(docker network inspect --format '{{.Internal}}' echomind_backend)" = true ]

step "a container may do nothing but its work"
for service in postgres nats scheduler chunker connector semantic api; do
  docker inspect --format '{{.Name}} {{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{.HostConfig.CapAdd}}' "$(docker compose ps -q $service)" |
    grep -E ' true \[ALL\] (\[\]|<nil>)$' || { echo "$service has more rights than it needs"; exit 1; }
done
# as ROLE PASSWORD SQL: what Postgres answers.
as() { docker compose exec -T postgres psql "postgres://$1:$2@127.0.0.1/echomind" -At -c "$3" 2>&1 || true; }
password() { sed -n "s/^$1_PASSWORD=//p" .env; }
for login in scheduler chunker connector semantic api console grafana; do
  as $login "$(password POSTGRES_${login^^})" 'CREATE TABLE mine ()' | grep "permission denied for schema public"
  as $login "$(password POSTGRES_${login^^})" 'TRUNCATE connectors' | grep "permission denied for table connectors"
  [ "$(as $login "$(password POSTGRES_${login^^})" 'SHOW lock_timeout')" = 5s ]
done
as grafana "$(password POSTGRES_GRAFANA)" 'SELECT count(*) FROM connectors' | grep '^[0-9]*$'
as grafana "$(password POSTGRES_GRAFANA)" 'DELETE FROM connectors' | grep "permission denied for table connectors"
as api "$(password POSTGRES_API)" 'SELECT count(*) FROM connectors' | grep "permission denied for table connectors"
as chunker "$(password POSTGRES_CONNECTOR)" 'SELECT 1' | grep "password authentication failed"

step "the API answers who has a token, and why a connector does not run"
token=$(run tokens create --user 1 --role user --scopes read,write | tail -n 1)
# rest METHOD PATH BODY: what the API answers, status line and all.
rest() {
  exec 3<>/dev/tcp/127.0.0.1/8080
  printf '%s /api/v1%s HTTP/1.0\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' "$1" "$2" "$token" "${#3}" "$3" >&3
  cat <&3
  exec 3>&-
}
rest GET /me '' | grep '"user_id":1'
added=$(rest POST /connectors '{"name":"by rest","type":"file","config":{"url":"file:///files"},"refresh_freq_minutes":null}')
number=$(sed -n 's/.*"id":\([0-9]*\),.*/\1/p' <<<"$added" | head -n 1)
[ -n "$number" ] || { echo "$added"; exit 1; }
why=$(rest GET "/connectors/$number/why" '')
grep '"cause":' <<<"$why"
if docker compose logs api | grep "is not whole"; then echo "the API may not ask NATS what it needs to know"; exit 1; fi
run connectors delete "$number" --yes >/dev/null

step "a setting in .env reaches who reads it, and one that is not there nobody"
printf 'WORKER_SLOTS=3\nCHUNKER_MAX_TOKENS=\n' >> .env
docker compose up -d --wait --wait-timeout 60 2>/dev/null
environment() { docker inspect --format '{{range .Config.Env}}{{println .}}{{end}}' "$(docker compose ps -q "$1")"; }
for service in chunker connector; do environment $service | grep -x WORKER_SLOTS=3; done
environment chunker | grep -x CHUNKER_MAX_TOKENS= # its default
if environment chunker | grep WORKER_MAX_IN_FLIGHT=; then echo "the chunker is given what nobody set"; exit 1; fi
sed -i '/^WORKER_SLOTS=/d; /^CHUNKER_MAX_TOKENS=/d' .env
docker compose up -d --wait --wait-timeout 60 2>/dev/null

step "NATS refuses who has no password, and users what is not theirs"
refused=$(docker compose run --rm -T -e NATS_USER= -e NATS_PASSWORD= echomind streams show 2>&1 || true)
grep -i "authorization" <<<"$refused"
refused=$(run streams apply --max-document-bytes 1000000 2>&1 || true)
grep "may not" <<<"$refused"

step "killed services come back, and the next sync works"
docker compose kill -s KILL chunker semantic >/dev/null
docker compose up -d --wait --wait-timeout 60 2>/dev/null
deploy/compose/smoke.sh | tail -n 1

step "down and up: what is stored stays"
id=$(run connectors add --name kept --type file --user 1 --config '{"url":"file:///files"}' --refresh manual)
run connectors trigger "$id" --wait
docker compose down 2>/dev/null
docker compose up -d --wait --wait-timeout 120 2>/dev/null
run search --user 1 lease | sed -n 1,3p
[ "$(run connectors list -o json | grep -c '"name": "kept"')" = 1 ]

step "backup and restore, as docs/operations.md says"
docker compose exec -T postgres pg_dump -U echomind -d echomind --format=custom > echomind.dump
docker compose down 2>/dev/null
docker volume rm echomind_postgres echomind_nats >/dev/null
docker compose up -d --wait postgres 2>/dev/null
docker compose run --rm -T logins
docker compose exec -T postgres pg_restore -U echomind -d echomind --exit-on-error < echomind.dump
docker compose up -d --wait --wait-timeout 120 2>/dev/null
run connectors trigger "$id" --wait
[ "$(run search --user 1 lease | grep -c ' kept ')" -gt 0 ]

step "passwords rotated, as docs/operations.md says"
server=$(docker compose ps -q postgres)
sed -i 's|^POSTGRES_CHUNKER_PASSWORD=.*|POSTGRES_CHUNKER_PASSWORD=changed|; s|^NATS_CHUNKER_PASSWORD=.*|NATS_CHUNKER_PASSWORD=changed|' .env
docker compose up -d --wait --wait-timeout 120 2>/dev/null
run connectors trigger "$id" --wait
[ "$server" = "$(docker compose ps -q postgres)" ]

step "a wiped NATS volume: setup makes the streams again"
docker compose rm -sf nats nats-volume setup >/dev/null 2>&1
docker volume rm echomind_nats >/dev/null
docker compose up -d --wait --wait-timeout 120 2>/dev/null
run connectors trigger "$id" --wait

step "make up QDRANT=1: what is stored already is found there, also after Qdrant has lost everything"
make up QDRANT=1 COMMIT=0123abc >/dev/null 2>&1
printf 'COMPOSE_PROFILES=qdrant\nQDRANT_URL=http://qdrant:6334\n' >> .env # as docker-compose.yml says, so that it stays
finds() {
  for _ in $(seq 30); do
    found=$(run search --user 1 lease 2>&1 || true)
    grep ' kept ' <<<"$found" >/dev/null && return
    sleep 1
  done
  echo "$found"
  exit 1
}
finds
wrong=$(docker compose run --rm -T -e QDRANT_API_KEY=wrong echomind search --user 1 lease 2>&1 || true)
grep "check QDRANT_API_KEY" <<<"$wrong"
docker compose up -d --wait --force-recreate --no-deps qdrant 2>/dev/null
finds
run connectors trigger "$id" --wait
sed -i '/^COMPOSE_PROFILES=/d; /^QDRANT_URL=/d' .env
docker compose --profile qdrant rm -sf qdrant >/dev/null 2>&1
docker compose up -d --wait 2>/dev/null
finds
run connectors trigger "$id" --wait

step "make up OBSERVABILITY=1: Prometheus sees every service, every rule is evaluated, traces arrive"
make up OBSERVABILITY=1 COMMIT=0123abc >/dev/null 2>&1
ask() { docker compose --profile observability exec -T prometheus wget -q -O - "http://127.0.0.1:9090/api/v1/$1"; }
for _ in $(seq 90); do
  up=$(ask 'query?query=sum(up)' | sed -n 's/.*"value":\[[^,]*,"\([0-9]*\)"\].*/\1/p')
  pending=$(ask rules | grep -c '"health":"unknown"' || true)
  [ "${up:-0}/$pending" = 5/0 ] && break
  sleep 1
done
[ "${up:-0}" = 5 ] || { ask targets | head -c 3000; exit 1; }
[ "$(ask rules | grep -o '"health":"[a-z]*"' | sort -u)" = '"health":"ok"' ] || { ask rules | head -c 3000; exit 1; }
run connectors trigger "$id" --wait
for _ in $(seq 30); do
  traces=$(docker compose --profile observability exec -T jaeger sort /tmp/requests 2>/dev/null | uniq -c || true)
  [ -z "$traces" ] || break
  sleep 1
done
grep "POST /v1/traces" <<<"$traces"
docker compose --profile observability exec -T grafana ls /var/lib/grafana-dashboards /etc/grafana/provisioning/dashboards /etc/grafana/provisioning/datasources
docker compose --profile observability exec -T grafana wget -q -O /dev/null http://prometheus:9090/-/healthy
echo "$up targets are up, $(ask rules | grep -o '"type":"alerting"' | wc -l) alert rules are evaluated without an error"
