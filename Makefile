# Everything a developer types. `make help` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PROGRAMS := ./cmd/echomind ./services/scheduler/cmd/scheduler ./services/chunker/cmd/chunker ./services/semantic/cmd/semantic
MODULES  := . cmd/echomind services/chunker services/scheduler services/semantic
TOOLS    := $(CURDIR)/bin/tools
BUF      := $(TOOLS)/buf
SQLC     := $(TOOLS)/sqlc
LINT     := $(TOOLS)/golangci-lint
GENERATED := proto/gen proto/echomind docs/configuration.md ':(glob)**/dbgen/*'

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

build: ## build the programs into bin/
	go build -trimpath -o bin/ $(PROGRAMS)

run: build ## run the whole pipeline on this machine until Ctrl-C
	bin/echomind run

demo: build ## the whole thing in one go, on real input, in a temporary folder
	bin/echomind demo

test: build ## pass the tests
	go test work

race: ## the tests under the race detector
	go test -race work

bench: build ## the figures of the README, as benchmarks
	go test -run '^$$' -bench . -benchtime 1x -timeout 30m ./cmd/echomind/internal/bench

bench-short: ## the same on a small scale, so that they cannot rot
	go test -short -run '^$$' -bench . -benchtime 1x ./cmd/echomind/internal/bench ./sdk/chunk ./services/semantic/embed

generate: $(BUF) $(SQLC) $(TOOLS)/protoc-gen-go ## regenerate what is generated
	$(BUF) format -w
	$(BUF) generate
	go run ./internal/pgserver/cmd/withpostgres -env SQLC_DATABASE_URL -- $(SQLC) generate
	go run ./internal/config/cmd/configdoc > docs/configuration.md.new
	mv docs/configuration.md.new docs/configuration.md

verify: generate lint race ## regenerate and prove the tree clean, lint, vet, race detector
	@test -z "$$(git status --porcelain -- $(GENERATED))" || \
		{ git status --short -- $(GENERATED); git --no-pager diff -- $(GENERATED) | head -50; \
		echo "generated files are not current: run make generate and commit"; exit 1; }

lint: $(BUF) $(SQLC) $(LINT) ## lint protos, SQL and Go
	$(BUF) lint
	$(BUF) format --diff --exit-code
	$(BUF) breaking --against proto/baseline.binpb
	go run ./internal/pgserver/cmd/withpostgres -env SQLC_DATABASE_URL -- $(SQLC) vet
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "run gofmt"; exit 1; }
	go vet work
	for m in $(MODULES); do (cd $$m && GOWORK=off go build ./...); done
	for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy -diff) || { echo "run make tidy"; exit 1; }; done
	$(LINT) run $(addsuffix /...,$(addprefix ./,$(filter-out .,$(MODULES)))) ./...

tidy: ## bring every go.mod up to date
	for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy); done

tools: $(BUF) $(SQLC) $(LINT) $(TOOLS)/protoc-gen-go ## build the pinned tools

$(BUF): tools/buf/go.sum
	cd tools/buf && GOWORK=off go build -o $@ github.com/bufbuild/buf/cmd/buf
$(SQLC): tools/sqlc/go.sum
	cd tools/sqlc && GOWORK=off go build -o $@ github.com/sqlc-dev/sqlc/cmd/sqlc
$(LINT): tools/golangci-lint/go.sum
	cd tools/golangci-lint && GOWORK=off go build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(TOOLS)/protoc-gen-go: tools/protoc-gen-go/go.sum
	cd tools/protoc-gen-go && GOWORK=off go build -o $@ google.golang.org/protobuf/cmd/protoc-gen-go

clean: ## remove what was built; data/ stays
	rm -rf bin

.PHONY: help build run demo test race bench bench-short generate verify lint tidy tools clean
