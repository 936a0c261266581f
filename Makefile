# The front door. Everything is built in build/; scripts/setup installs what a purpose needs and is
# silent when it is there.
#
#   make run [ARGS="--port 2469"]   build and start the server
#   make test [SUITES=unit,api] [FILTER=word]
MAKEFLAGS += --no-print-directory
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build

JOBS   ?= $(shell nproc)
ARGS   ?=
SUITES ?=
FILTER ?=

deps    := $(CURDIR)/build/deps
node    := PATH="$(deps)/node/bin:$$PATH"
# Says what it builds, and nothing when there is nothing to do.
quiet   := { grep --line-buffered -v -e 'Re-checking globbed' -e 'no work to do' || true; }
ninja    = cmake --build build/$(1) -j $(JOBS) | $(quiet)
# Configures once; ninja runs cmake again by itself when a CMake file or a list of sources changes.
preset   = mkdir -p build; if [ ! -f build/$(1)/build.ninja ]; then cmake --preset $(1) \
           >build/$(1).log || { cat build/$(1).log; exit 1; }; fi; $(call ninja,$(1))

.PHONY: run build test e2e e2e-all bench asan tsan clang fuzz lint format docs check clean help \
        setup-run setup-test setup-e2e setup-bench setup-dev

run: build ## build and start the server (ARGS are its flags)
	@exec env -u SANDBOX_AGENT_LOG_STDOUT build/sandbox-agent server $(ARGS)

build: setup-run ## the release binary, build/sandbox-agent
	@$(call preset,release)
	@if [ ! build/sandbox-agent -nt build/release/sandbox-agent ]; then \
	        strip -o build/sandbox-agent build/release/sandbox-agent; fi

test: build setup-test asan ## unit, golden, API and page tests, to "N passed, N failed"
	@$(node) node tests/run.mjs $(if $(SUITES),--suite $(SUITES)) $(if $(FILTER),--filter '$(FILTER)')

e2e: build setup-e2e asan ## the end-to-end shards that need no second system
	@$(node) scripts/e2e --local

e2e-all: build setup-e2e asan ## every end-to-end shard
	@$(node) scripts/e2e --all

bench: build setup-bench ## a table of ratios against the peer, same run
	@$(node) node tests/bench/bench.mjs $(ARGS)

asan tsan: setup-test ## unit tests and test server under a sanitizer
	@$(call preset,$@)

clang: setup-dev setup-test ## everything with clang
	@$(call preset,$@)

fuzz: setup-dev setup-run ## every fuzz target for SECONDS (30)
	@scripts/fuzz-run $(or $(SECONDS),30)

lint: clang ## clang-tidy over all of src (FILES: only these)
	@scripts/lint $(FILES)

format: setup-dev ## clang-format in place
	@scripts/check-format --fix

docs: build ## print the reference documents from the program
	@build/sandbox-agent docs cli >docs/cli.md
	@build/sandbox-agent docs configuration >docs/configuration.md
	@build/sandbox-agent docs openapi >docs/openapi.json

check: setup-dev setup-test ## format, layers, style
	@scripts/check-format
	@$(node) scripts/check-layers
	@$(node) scripts/check-style

clean: ## remove what was built, keep what was downloaded
	@find build -mindepth 1 -maxdepth 1 ! -name deps ! -name cache -exec rm -rf {} + 2>/dev/null || true

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9 -]+:.*## /{ printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup-run setup-test setup-e2e setup-bench setup-dev:
	@scripts/setup $(@:setup-%=%)
