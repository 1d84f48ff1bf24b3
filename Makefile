# Everything a developer types. `make help` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

SERVICES := $(addprefix ./services/,scheduler/cmd/scheduler chunker/cmd/chunker connector/cmd/connector semantic/cmd/semantic api/cmd/api)
PROGRAMS := ./cmd/echomind $(SERVICES)
MODULES  := . cmd/echomind sdk/client services/api services/chunker services/connector services/internal/uploads services/scheduler services/semantic testonly/bench testonly/chaos testonly/model
TOOLS    := $(CURDIR)/bin/tools
BUF      := $(TOOLS)/buf
SQLC     := $(TOOLS)/sqlc
LINT     := $(TOOLS)/golangci-lint
OASDIFF  := $(TOOLS)/oasdiff
OAPI     := $(TOOLS)/oapi-codegen
SBOM     := $(TOOLS)/cyclonedx-gomod
VULNCHECK := $(TOOLS)/govulncheck
CHAOS    := bin/chaos
# Its tests need a real kube-apiserver, so it is no part of the workspace.
ELECTION := tools/kube/election
# The chart's generator and tests: Kubernetes' types, for the same reason.
CHART    := tools/helm/chart
GENERATED := contract/proto/gen contract/proto/echomind docs/configuration.md docs/metrics.md services/api/openapi.json sdk/client/operations.gen.go helm/echomind/files/dashboards $(addprefix helm/echomind/,values.schema.json README.md files/secret-variables.yaml) ':(glob)**/dbgen/*'

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

build: ## build the programs into bin/
	go build -o bin/ $(PROGRAMS)

run: build ## run the whole pipeline on this machine until Ctrl-C; FILES=folder lets connectors of type file read it
	bin/echomind run $(if $(FILES),--file-roots "$(abspath $(FILES))")

example-job: build ## examples/wordcount, a job, beside `make run`
	bin/echomind types add word_count --kind job --default-refresh 1h
	go build -o bin/wordcount ./examples/wordcount
	go run ./internal/devstack/cmd/withstack -- bin/wordcount

example-vocabulary: ## examples/vocabulary, three jobs with conditions, beside `make run`
	go build -o bin/vocabulary ./examples/vocabulary
	go run ./internal/devstack/cmd/withstack -- bin/vocabulary

example-civic: ## examples/civic, six jobs of a day; two share a GPU, beside `make run`
	go build -o bin/civic ./examples/civic
	go run ./internal/devstack/cmd/withstack -- bin/civic

demo: build ## the whole thing in one go, on real input, in a temporary folder
	bin/echomind demo

# Go tests packages in the order in which they are named: those that take minutes first, or the end waits for one of them.
SLOW := ./services/scheduler ./services/semantic ./sdk/worker ./services/api ./db ./cmd/echomind/internal/stack ./cmd/echomind/internal/console ./testonly/model

# Many packages wait as much as they compute, for deadlines, leases and servers; more than three at once slow each other down.
# Go's own ten minutes for a package are too few on a busy machine.
test: build ## pass the tests
	go test -p 3 -timeout 1h -vet=off $(SLOW) work

# The race detector sees what runs at once: packages whose code shares something, but for those whose tests run programs that are built
# without it, and the two whose tests run whole services. Tests that ask Postgres, or do one thing after another, are in files that say
# `//go:build !race`: the `_inturn_test.go` beside a file whose other tests have several at work at once.
RACE_SHARES  := "sync(/atomic)?"|errgroup|\bgo (func\b|[a-zA-Z_.]+\()|\bchan\b
RACE_NOTHING := /internal/(console|stack)$$
RACE_TOO     := ./testonly/model ./services/connector/internal/endtoend

race: ## the tests of what runs at once, under the race detector
	go test -p 3 -timeout 1h -vet=off -race $(filter-out ./cmd/% ./db,$(SLOW)) $(RACE_TOO) $$(go list -f '{{range .GoFiles}}{{$$.Dir}}/{{.}}{{"\n"}}{{end}}' work | \
		grep . | xargs grep -lE '$(RACE_SHARES)' | xargs dirname | sort -u | grep -vE '$(RACE_NOTHING)')

model: ## random histories of the model, MODEL_HISTORIES=200, by a fresh seed or MODEL_SEED
	go test -count=1 -v -timeout 2h -run TestThePromisesHoldInEveryHistory ./testonly/model \
		-rapid.seed=$(or $(MODEL_SEED),0) -rapid.checks=$(or $(MODEL_HISTORIES),200)

test-kube: $(TOOLS)/etcd $(TOOLS)/kube-apiserver $(TOOLS)/helm ## leader election and chart against a real kube-apiserver (the first time it is built: minutes)
	cd $(ELECTION) && GOWORK=off go test -vet=off -race ./...
	cd $(CHART) && GOWORK=off go test -vet=off ./cluster

# Go keeps a passed test as long as what it read itself is the same; the chart is read by helm.
test-helm: $(TOOLS)/helm ## the chart as helm renders it: lint, every values file, each concern, what is refused
	cd $(CHART) && GOWORK=off go test -vet=off -count=1 . ./generate

DOCKER_BUILD ?= docker build
VERSION      ?= $(shell git describe --tags --always --dirty)
COMMIT       ?= $(shell git rev-parse --short=12 HEAD)
IMAGES       := scheduler chunker connector semantic api cli

images: ## build the container images, echomind/<program>:VERSION
	for i in $(IMAGES); do $(DOCKER_BUILD) --target $$i -t echomind/$$i:$(VERSION) --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) \
		--build-arg GOPROXY="$$(go env GOPROXY)" . ; done

comma    := ,
PROFILES := $(if $(OBSERVABILITY),observability)$(if $(QDRANT),$(if $(OBSERVABILITY),$(comma))qdrant)

up: ## docker compose up, on fresh passwords the first time; OBSERVABILITY=1 adds Prometheus, Grafana and traces, QDRANT=1 Qdrant
	deploy/compose/env.sh
	ECHOMIND_COMMIT=$(COMMIT) $(if $(PROFILES),COMPOSE_PROFILES=$(PROFILES)) $(if $(QDRANT),QDRANT_URL=http://qdrant:6334) \
		$(if $(OBSERVABILITY),OTEL_EXPORTER_OTLP_ENDPOINT=http://jaeger:4318) docker compose up --build -d --wait

test-compose: $(TOOLS)/docker-compose ## the real docker-compose.yml and our images, on stand-ins for the base images (root, dockerd, debootstrap)
	deploy/compose/test.sh

DRIVE_MOCK := $(TOOLS)/drivemock
$(DRIVE_MOCK)/node_modules: tools/drivemock/package.json tools/drivemock/package-lock.json
	mkdir -p $(DRIVE_MOCK) && cp $^ $(DRIVE_MOCK)/
	cd $(DRIVE_MOCK) && npm ci --ignore-scripts --no-audit --no-fund && touch node_modules

test-drive-mock: $(DRIVE_MOCK)/node_modules ## the Google Drive source against google-drive-mock, somebody else's fake (needs node)
	cd services/connector && CONNECTOR_DRIVE_MOCK=$(DRIVE_MOCK) go test -count=1 -run TestAnyDrive ./googledrive

AXE := $(TOOLS)/axe
$(AXE)/node_modules: tools/axe/package.json tools/axe/package-lock.json
	mkdir -p $(AXE) && cp $^ $(AXE)/
	cd $(AXE) && npm ci --ignore-scripts --no-audit --no-fund && touch node_modules

# axe-core is code under the MPL 2.0, which runs in the tests' browser alone.
test-page: $(AXE)/node_modules ## the page in a real browser (Debian: apt-get install chromium npm); PAGE_PICTURES=folder keeps what it looks like
	go build -o bin/ ./cmd/echomind
	cd tools/page && PAGE_ECHOMIND=$(CURDIR)/bin/echomind PAGE_AXE=$(AXE)/node_modules/axe-core/axe.min.js GOWORK=off go test -count=1 -timeout 30m .

NODE_EXAMPLE := $(TOOLS)/shelf
$(NODE_EXAMPLE)/node_modules: examples/node/package.json examples/node/package-lock.json
	mkdir -p $(NODE_EXAMPLE) && cp $^ $(NODE_EXAMPLE)/
	cd $(NODE_EXAMPLE) && npm ci --ignore-scripts --no-audit --no-fund && touch node_modules

test-node: $(NODE_EXAMPLE)/node_modules ## examples/node, a subscriber in JavaScript, against the real services (needs node)
	cd cmd/echomind && CONTRACT_NODE_MODULES=$(NODE_EXAMPLE)/node_modules go test -tags node -vet=off -count=1 -run TestASubscriberInJavaScript ./internal/contract

# That release's programs are built in a worktree of their own; they are kept, by their commit.
test-upgrade: ## upgrade FROM=<git ref> to what is here under running syncs; no run may fail
	@test -n "$(FROM)" || { echo "name the release to come from: make test-upgrade FROM=<git ref>"; exit 2; }
	commit=$$(git rev-parse --verify --short=12 "$(FROM)^{commit}"); release=$(CURDIR)/bin/upgrade/$$commit; \
	if [ ! -x $$release/echomind ]; then \
		tree=$$(mktemp -d); trap 'git worktree remove --force '$$tree EXIT; git worktree add --quiet --detach $$tree $$commit; \
		(cd $$tree && go build -trimpath -o $$release/ ./cmd/echomind ./services/scheduler/cmd/scheduler \
			./services/chunker/cmd/chunker ./services/semantic/cmd/semantic); \
	fi; \
	UPGRADE_FROM=$$release go test -count=1 -v -run TestAnEarlierRelease ./cmd/echomind/internal/stack

chaos: chaos-build ## break everything and audit the promises: 90 s, by CHAOS_SEED or a random one; CHAOS_MINUTES=10 for the long form
	$(CHAOS)/chaos -bin $(CHAOS) -minutes $(or $(CHAOS_MINUTES),0) -seed $(or $(CHAOS_SEED),0)

chaos-failover: chaos-build ## the short form with a replica of Postgres that takes over without the last commits
	$(CHAOS)/chaos -bin $(CHAOS) -failover -seed $(or $(CHAOS_SEED),0)

chaos-cluster: chaos-build ## the short form with three nats-servers that lose their leader and their majority
	$(CHAOS)/chaos -bin $(CHAOS) -cluster -seed $(or $(CHAOS_SEED),0)

chaos-crowd: chaos-build ## a wiped stream and a lost worker under CHAOS_PENDING=5000 and CHAOS_IN_FLIGHT=2000: 250000 and 100000 take 4 minutes
	$(CHAOS)/chaos -bin $(CHAOS) -crowd -pending $(or $(CHAOS_PENDING),5000) -in-flight $(or $(CHAOS_IN_FLIGHT),2000)

chaos-tenant: chaos-build ## a hostile owner beside 50 ordinary connectors, whose p99 is measured: 80 s; CHAOS_ALONE=1 for each attack by itself, too
	$(CHAOS)/chaos -bin $(CHAOS) -tenant $(if $(CHAOS_ALONE),-alone) $(if $(CHAOS_STRICT),-strict)

chaos-mutants: chaos-build ## defects put back one at a time: the audit must see each (about 12 minutes)
	$(CHAOS)/mutants -bin $(CHAOS)

test-alerts: chaos-build ## the alert rules: by promtool, and under faults by a real Prometheus (Debian: apt-get install prometheus)
	promtool check rules helm/echomind/files/alerts.yaml
	promtool test rules testonly/chaos/alerts/testdata/alerts_test.yaml
	ALERTS_PROGRAMS=$(CURDIR)/$(CHAOS) go test -tags alerts -vet=off -count=1 ./testonly/chaos/alerts

# Everything that the last stages of .ci/run compile.
later: chaos-build $(TOOLS)/etcd $(TOOLS)/kube-apiserver $(TOOLS)/helm
	cd $(ELECTION) && GOWORK=off go test -vet=off -race -exec true ./...
	cd $(CHART) && GOWORK=off go test -vet=off -exec true ./...

recovery: chaos-build ## measure how long it takes to be back after a fault, with default settings
	$(CHAOS)/chaos -bin $(CHAOS) -recovery

chaos-build:
	go run ./testonly/chaos/cmd/skewclock $(CHAOS)/clock
	go build -tags chaos -overlay $(CHAOS)/clock/overlay.json -o $(CHAOS)/ $(SERVICES) ./testonly/chaos/cmd/synthetic github.com/nats-io/nats-server/v2
	go build -o $(CHAOS)/ ./testonly/chaos/cmd/chaos ./testonly/chaos/cmd/mutants ./internal/search/qdrant/standin/cmd/qdrant

bench: build ## the figures of docs/performance.md, as benchmarks
	go test -p 1 -run '^$$' -bench . -benchtime 1x -timeout 30m ./cmd/echomind/internal/bench ./services/semantic ./services/chunker/files

bench-short: ## the same on a small scale, so that they cannot rot
	go test -short -run '^$$' -bench . -benchtime 1x ./cmd/echomind/internal/bench ./sdk/chunk ./services/semantic ./internal/search/embed ./services/chunker/files ./internal/confine

# One program, so that ours, the ceilings and the peers take turns on the same servers.
bench-dispatch: ## dispatch and whole syncs beside the servers' ceilings, the obvious loop, River and DBOS, in one table (about 20 minutes); BENCH=-json
	go run ./testonly/bench $(BENCH)

bench-dispatch-short: ## the same on a small scale; it fails where a ratio is worse than half its target
	go run ./testonly/bench -short $(BENCH)

bench-conditions: ## 10,000 due jobs that ask one condition, beside as many that ask none
	go run ./testonly/bench -only conditions $(BENCH)

bench-events: ## how long 1,000 verdicts a second take into the stream of events
	go run ./testonly/bench -only events $(BENCH)

bench-api: ## mixed reads at a given rate over 1,000,000 connectors, dispatch beside them, and those who watch; BENCH='-at-rest 100000 -rate 100'
	go run ./testonly/bench -only api -turns 1 $(BENCH)

bench-scale: ## what does not depend on how much there is, at 10 million connectors and 100 million runs in the ledger: hours, and 60 GB of disk
	go run ./testonly/bench -at-rest 10000000 -ledger 100000000 -only at-rest,ledger -turns 3 $(BENCH)

fuzz: ## every fuzz target for FUZZ_MINUTES=60, or those of FUZZ=a name; what fails is kept in its testdata
	for file in $$(git grep -l '^func Fuzz$(FUZZ)' -- '*_test.go'); do for target in $$(sed -n 's/^func \(Fuzz$(FUZZ)[A-Za-z]*\).*/\1/p' $$file); do \
		go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(or $(FUZZ_MINUTES),60)m -fuzzminimizetime 20x ./$$(dirname $$file); done; done

generate: $(BUF) $(SQLC) $(OAPI) $(TOOLS)/protoc-gen-go ## regenerate what is generated
	$(BUF) format -w
	$(BUF) generate
	go run ./internal/pgserver/cmd/withpostgres -env SQLC_DATABASE_URL -- $(SQLC) generate
	go run ./internal/config/cmd/configdoc > docs/configuration.md.new
	mv docs/configuration.md.new docs/configuration.md
	go run ./services/api/cmd/openapi > services/api/openapi.json.new
	mv services/api/openapi.json.new services/api/openapi.json
	$(OAPI) -config sdk/client/generate.yaml services/api/openapi.json
	go test -count=1 -run TestTheListOfMetricsIsCurrent ./cmd/echomind/internal/metrics -update
	go run ./internal/observability/cmd/dashboards helm/echomind/files/dashboards
	cd $(CHART) && GOWORK=off go run ./generate $(CURDIR)

verify: generate lint race ## regenerate and prove the tree clean, lint, vet, modules as go.sum has them, race detector
	go mod verify
	@test -z "$$(git status --porcelain -- $(GENERATED))" || \
		{ git status --short -- $(GENERATED); git --no-pager diff -- $(GENERATED) | head -50; \
		echo "generated files are not current: run make generate and commit"; exit 1; }

lint: $(BUF) $(SQLC) $(LINT) $(OASDIFF) ## lint protos, SQL and Go; nothing that subscribers and clients use is gone
	$(BUF) lint
	$(BUF) format --diff --exit-code
	$(BUF) breaking --against contract/proto/baseline.binpb
	$(OASDIFF) breaking services/api/baseline.json services/api/openapi.json --fail-on ERR
	go run ./internal/pgserver/cmd/withpostgres -env SQLC_DATABASE_URL -- $(SQLC) vet
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "run gofmt"; exit 1; }
	go vet -tags node,alerts work
	for m in $(MODULES); do (cd $$m && GOWORK=off go list -export ./... >/dev/null); done
	for m in $(MODULES) $(ELECTION) $(CHART); do (cd $$m && GOWORK=off go mod tidy -diff) || { echo "run make tidy"; exit 1; }; done
	$(LINT) run $(addsuffix /...,$(addprefix ./,$(filter-out .,$(MODULES)))) ./...
	for m in $(ELECTION) $(CHART) tools/licences; do (cd $$m && GOWORK=off $(LINT) run ./...); done
	GOWORK=off go run -C tools/licences . -check $(CURDIR)/docs/licences.md $(addprefix $(CURDIR)/,$(MODULES))

licences: ## list the direct dependencies with their licences and newest releases (network)
	GOWORK=off go run -C tools/licences . $(addprefix $(CURDIR)/,$(MODULES)) > docs/licences.md.new
	mv docs/licences.md.new docs/licences.md

vulncheck: $(VULNCHECK) ## look the code up in Go's database of vulnerabilities (network)
	for m in $(MODULES); do (cd $$m && $(VULNCHECK) ./...) || \
		{ rc=$$?; [ $$rc = 3 ] || echo "$$m was not looked at: this needs the network, to read vuln.go.dev"; exit $$rc; }; done

# The binaries are those of the images (Dockerfile): the same flags, each with the versions of its own module.
sbom: $(SBOM) ## what is in each program and its image, as CycloneDX, into bin/sbom/
	mkdir -p bin/sbom
	for p in $(PROGRAMS); do n=$$(basename $$p); \
		(cd $$p && GOWORK=off CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags timetzdata,grpcnotrace -ldflags '-s -w -buildid=' -o $(CURDIR)/bin/sbom/ .); \
		$(SBOM) bin -json -noserial -notimestamp -std -version $(VERSION) -output bin/sbom/$$n.cdx.json bin/sbom/$$n; rm bin/sbom/$$n; done

tidy: ## bring every go.mod up to date
	for m in $(MODULES) $(ELECTION) $(CHART); do (cd $$m && GOWORK=off go mod tidy); done

tools: $(BUF) $(SQLC) $(LINT) $(OASDIFF) $(OAPI) $(TOOLS)/protoc-gen-go ## build the pinned tools

$(BUF): tools/buf/go.sum
	cd tools/buf && GOWORK=off go build -o $@ github.com/bufbuild/buf/cmd/buf
$(SQLC): tools/sqlc/go.sum
	cd tools/sqlc && GOWORK=off go build -o $@ github.com/sqlc-dev/sqlc/cmd/sqlc
$(LINT): tools/golangci-lint/go.sum
	cd tools/golangci-lint && GOWORK=off go build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(OASDIFF): tools/oasdiff/go.sum
	cd tools/oasdiff && GOWORK=off go build -o $@ github.com/oasdiff/oasdiff
$(OAPI): tools/oapi-codegen/go.sum
	cd tools/oapi-codegen && GOWORK=off go build -o $@ github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen
$(SBOM): tools/sbom/go.sum
	cd tools/sbom && GOWORK=off go build -o $@ github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
$(VULNCHECK): tools/govulncheck/go.sum
	cd tools/govulncheck && GOWORK=off go build -o $@ golang.org/x/vuln/cmd/govulncheck
$(TOOLS)/helm: tools/helm/go.sum
	cd tools/helm && GOWORK=off go build -o $@ helm.sh/helm/v4/cmd/helm
$(TOOLS)/protoc-gen-go: tools/protoc-gen-go/go.sum
	cd tools/protoc-gen-go && GOWORK=off go build -o $@ google.golang.org/protobuf/cmd/protoc-gen-go
$(TOOLS)/docker-compose: tools/compose/go.sum
	cd tools/compose && GOWORK=off go build -o $@ github.com/docker/compose/v2/cmd
$(TOOLS)/etcd: tools/kube/go.sum tools/kube/etcd/main.go
	cd tools/kube && GOWORK=off go build -o $@ ./etcd
# The API server takes what it serves from its version, which only the linker tells it.
$(TOOLS)/kube-apiserver: tools/kube/go.sum tools/kube/apiserver/main.go
	cd tools/kube && export GOWORK=off version=k8s.io/component-base/version && v=$$(go list -m -f '{{.Version}}' k8s.io/kubernetes) && \
		go build -o $@ -ldflags "-X $$version.gitVersion=$$v -X $$version.gitMajor=1 -X $$version.gitMinor=$$(cut -d. -f2 <<< $$v)" ./apiserver

clean: ## remove what was built; data/ stays
	rm -rf bin


.PHONY: images up test-compose help build run demo test test-upgrade test-kube test-helm test-drive-mock test-node test-page race model test-alerts chaos chaos-failover chaos-cluster chaos-crowd chaos-tenant chaos-mutants chaos-build recovery bench bench-short bench-dispatch bench-dispatch-short bench-conditions bench-events bench-api bench-scale fuzz generate verify lint licences vulncheck sbom tidy tools clean later
