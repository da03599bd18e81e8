# The checks of the project: `make test` runs all of them, from a fresh clone too. `make help` lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
STEP := .ci/step
# One set of packages and one set of features in every step, so that no dependency is built twice.
ALL := --workspace --locked
NEXTEST := $(shell cargo nextest --version >/dev/null 2>&1 && echo yes)
DENY := $(shell cargo deny --version >/dev/null 2>&1 && echo yes)
BROWSER := $(wildcard client-demo/package.json)

.PHONY: help
help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

.PHONY: test
test: deps format lint unit docs licences deploy client browser steps rewards smoke ## Every check and every test
	@echo "all checks passed"

.PHONY: deps
deps: ## Get what the tests need and is missing (Debian packages, npm packages of the lock file)
	@$(STEP) deps .ci/deps

.PHONY: format
format: ## Is everything formatted?
	@$(STEP) format cargo fmt --all --check

.PHONY: lint
lint: ## Clippy, warnings are errors
	@$(STEP) lint cargo clippy $(ALL) --all-targets -- -D warnings

.PHONY: unit
unit: ## Rust tests, the house rules among them
	@$(STEP) build cargo build $(ALL) --all-targets
ifeq ($(NEXTEST),yes)
	@$(STEP) test cargo nextest run $(ALL) --no-fail-fast
	@$(STEP) doctest cargo test $(ALL) --doc
else
	@$(STEP) test cargo test $(ALL) --no-fail-fast
endif

.PHONY: docs
docs: ## Rustdoc, warnings are errors
	@RUSTDOCFLAGS="-D warnings" $(STEP) docs cargo doc $(ALL) --no-deps

.PHONY: licences
licences: ## Licences, sources and duplicates of dependencies, where cargo-deny is installed
ifeq ($(DENY),yes)
	@$(STEP) licences cargo deny --locked check bans licenses sources
	@if timeout 60 cargo deny fetch db >/dev/null 2>&1; then $(STEP) advisories cargo deny --locked check advisories; \
	else echo "-- advisories: their database cannot be reached from here, left out"; fi
else
	@echo "-- licences: cargo-deny is not installed, left out"
endif

.PHONY: deploy
deploy: ## The manifests: Kubernetes' schemas, what the guide promises of them, the binary's own word on their configuration
	@$(STEP) demo cargo build $(ALL) --all-targets
	@$(STEP) deploy .ci/manifests $(TARGET)

.PHONY: client
client: ## The browser client: types, lint, unit tests, is the committed bundle what the sources build? Can the SDK be packed?
ifneq ($(BROWSER),)
	@$(STEP) client npm --prefix client-demo run --silent check
	@$(STEP) bundle npm --prefix client-demo run --silent build:check
	@$(STEP) sdk npm --prefix client-demo run --silent pack
endif

.PHONY: browser
browser: ## The demo in a real browser
ifneq ($(BROWSER),)
	@$(STEP) demo cargo build $(ALL) --all-targets
	@TENURE_BIN=$(TARGET)/debug/demo $(STEP) browser npm --prefix client-demo run --silent test:browser
endif

.PHONY: steps
steps: ## A fault at some steps of a move, in real processes of a development build
	@$(STEP) demo cargo build $(ALL) --all-targets
	@$(STEP) steps .ci/steps $(TARGET)/debug

.PHONY: rewards
rewards: ## Rewards while owners die at the worst moments, the store is restarted and the file changes, then everything is audited
	@$(STEP) build cargo build $(ALL) --all-targets
	@$(STEP) rewards .ci/rewards $(TARGET)/debug

.PHONY: release
release: ## The optimised build of everything
	@$(STEP) release cargo build $(ALL) --release --bins

.PHONY: smoke
smoke: release ## Twenty seconds of load on the optimised server, then a cluster with one kill, then one that is replaced whole
	@$(STEP) smoke .ci/smoke $(TARGET)/release

.PHONY: bench
bench: ## Measure (quiet machine, twelve minutes): a bare server beside ours, the store's commits, due work, rooms and idleness
	cargo build $(ALL) --release --bins --examples
	$(TARGET)/release/loadtest compare --server-bin $(TARGET)/release/demo --players 500 --rooms 10
	$(TARGET)/release/examples/store_bench
	$(TARGET)/release/examples/work_bench
	loadtest/idle.sh $(TARGET)/release

.PHONY: peers
peers: ## Measure ours beside its peers (PEERS=folder of the peer benchmark)
	loadtest/peers/run.sh

.PHONY: soak
soak: ## The simulation over many seeds (SEEDS=10000) and the model check in larger bounds (hours; SEEDS=1000: one)
	TENURE_SEEDS=$(or $(SEEDS),10000) cargo test $(ALL) --test sim -- --nocapture seeds_keep_every_invariant daemons_run_once_and_always
	cargo test $(ALL) --test model_check -- --ignored --nocapture deep

.PHONY: chaos
chaos: release ## Twenty kill -9 under load with the audit, faults in a cluster, in its deploys and at each step of a move, rewards under faults, hosts of daemons, matchmaking, churn, then two hundred bad clients (an hour)
	$(TARGET)/release/loadtest --scenario kill --server-bin $(TARGET)/release/demo --kills 20 --players 60 --rooms 4 --duration 60s
	$(TARGET)/release/loadtest --scenario takeover --server-bin $(TARGET)/release/demo --players 60 --rooms 6 --nodes 3 --gateways 2 \
	  --kills 2 --stops 1 --cuts 3 --outages 1 --input-rate 5
	$(TARGET)/release/loadtest --scenario rolling-deploy --server-bin $(TARGET)/release/demo --players 60 --rooms 6 --deploys 2 --at-once 2 \
	  --with-gateways --input-rate 5 --max-drops 0
	$(TARGET)/release/loadtest --scenario rolling-deploy --server-bin $(TARGET)/release/demo --players 60 --rooms 6 --deploys 3 \
	  --kills 6 --outages 1 --restarts 1 --input-rate 5
	$(TARGET)/release/loadtest --scenario rewards --server-bin $(TARGET)/release/demo --players 48 --rooms 8 --embedded --rounds 2
	$(TARGET)/release/loadtest --scenario rewards --server-bin $(TARGET)/release/demo --players 48 --rooms 8 --nodes 3 --gateways 2 --rounds 2
	$(TARGET)/release/loadtest --scenario store-faults --server-bin $(TARGET)/release/demo --players 60 --rooms 6 --nodes 3 --gateways 2 --input-rate 5
	$(TARGET)/release/loadtest --scenario daemons --server-bin $(TARGET)/release/demo --to-bin $(TARGET)/release/demo-v2 --players 30 --rooms 6 \
	  --kills 25 --stops 25 --deploys 2 --between 3s --input-rate 5
	$(TARGET)/release/loadtest --scenario matchmaking --server-bin $(TARGET)/release/demo --nodes 3 --gateways 2 --joins-per-second 100 --duration 60s --max-p99 250
	$(TARGET)/release/loadtest --scenario churn --server-bin $(TARGET)/release/demo --players 360 --joins-per-second 100 --duration 120s --input-rate 4 --max-growth 15
	cargo build $(ALL) --bins
	$(TARGET)/debug/loadtest --scenario rolling-deploy --at-each-step all --server-bin $(TARGET)/debug/demo --players 24 --rooms 6 --input-rate 5
	.ci/bad-clients $(TARGET)/release

.PHONY: rolling
rolling: release ## Measure (quiet machine, fifteen minutes): a hundred rooms through a deploy, two thousand entities, twenty deploys in a row
	$(TARGET)/release/loadtest --scenario rolling-deploy --server-bin $(TARGET)/release/demo --players $(or $(PLAYERS),500) --rooms 100 \
	  --deploys 2 --input-rate 5 --max-drops 0 --max-move-p50 50 --max-move-p99 150
	$(TARGET)/release/loadtest --scenario rolling-deploy --server-bin $(TARGET)/release/demo --players 60 --rooms 6 --kind quarry --deploys 2 \
	  --input-rate 5 --max-drops 0 --max-move-p50 50 --max-move-p99 150
	$(TARGET)/release/loadtest --scenario rolling-deploy --server-bin $(TARGET)/release/demo --players 100 --rooms 20 --deploys 20 \
	  --between 2s --input-rate 5 --max-drops 0 --max-growth 15

.PHONY: clean-data
clean-data: ## Forget the demo's rooms, scores and schedules
	rm -rf tenure-data
