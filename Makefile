# The front door: every target installs what it needs first (scripts/setup) and then calls cmake, ctest or a script.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
ROUNDS ?= 20
SOAK_COMMANDS ?= 100000
SOAK_SANDBOXES ?= 10000
SOAK_INTERRUPTS ?= 1000
SOAK_KILLS ?= 200
SOAK_MINUTES ?= 80
CHAOS_MINUTES ?= 10
CHAOS_CLIENTS ?= 50
CHAOS_SEED ?=
FRESH_CPU ?=
FRESH_LOAD ?=
FRESH_MINUTES ?= 300
FRESH_CCACHE ?=
FRESH_ROOT ?=
FILTER ?=
LINT ?= (src|apps)/

# Most tests wait for engines and sandboxes: two for each processor.
export CTEST_PARALLEL_LEVEL := $(shell echo $$((2 * $(JOBS))))

apps := $(notdir $(patsubst %/main.cc,%,$(wildcard apps/*/main.cc)))
fuzzers := $(notdir $(basename $(wildcard fuzz/*_fuzz.cc)))
sources = $(shell git ls-files '*.cc' '*.h')
# Texts that people read; tests hold misspelt words on purpose.
spelled = $(shell find *.md docs src apps scripts -type f ! -name '*_test.cc' ! -name '*_fixture.h' ! -name '*.svg' ! -name '*.png' ! -name '*.pyc')
soak_share = $(shell echo $$(($(SOAK_MINUTES) / 5)))
# ctest in one build directory; ends with the failed and the skipped tests and the counts.
run_ctest := /usr/bin/python3 -B tests/support/run_ctest.py

# $(call configured,PRESET): configures build/PRESET; always, because the preset itself may have changed.
configured = @cmake --preset $(1) >/dev/null

.PHONY: help build images ready test imagetest test-kubernetes check demo up down bench asan readyasan tsan fuzz conformance soak chaos attacks fresh package packagetest fmt lint clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | awk -F '\t' '{printf "  make %-15s %s\n", $$1, $$2}'

build: ## the programs, optimised, in build/release/bin
	@scripts/setup build
	$(call configured,release)
	@cmake --build build/release -j $(JOBS) --target $(apps)

images: build ## the images execd, egress, server, controller, task-executor, image-committer and code-interpreter, in build/images and in the engine at DOCKER_HOST; the last takes minutes
	@scripts/setup run image
	@scripts/images
	@scripts/code-image

test: ## all tests of the release build
	@$(MAKE) ready
	@$(run_ctest) build/release

imagetest: build ## the image code-interpreter on native and Docker: every language, through the official SDK. Makes the image first, which takes minutes
	@scripts/setup run test image
	@scripts/python-env
	@scripts/code-image --no-load
	@CODE_IMAGE=$(CURDIR)/build/images/code-interpreter.tar $(run_ctest) build/release -R '^e2e.code_image'

test-kubernetes: ## controller, server and official clients on a real cluster of one node, as root; the first time its programs are built, 11 minutes
	@scripts/setup build test kubernetes
	@scripts/python-env
	@scripts/node-env
	$(call configured,release)
	@cmake --build build/release -j $(JOBS) --target kubernetes_test controller server execd task-executor image-committer
	@scripts/kubernetes-env >/dev/null
	@$(run_ctest) build/release -C kubernetes -L kubernetes

check: ## unit tests and execd's contract under sanitizers; every header compiles alone; links and spelling
	@scripts/setup check
	@/usr/bin/python3 -B tests/docs/check_links.py
	@codespell --ignore-words-list te,renderd $(spelled)
	@$(MAKE) asan
	$(call configured,release)
	@cmake --build build/release -j $(JOBS) --target headers

ready: # all that the tests of the release build need
	@scripts/setup build test
	@scripts/python-env
	@scripts/node-env
	$(call configured,release)
	@cmake --build build/release -j $(JOBS)

demo: build ## the main job, with timings: a sandbox, commands, files, a snapshot, pause and resume, all through the API
	@scripts/setup run
	@scripts/demo

up: build ## sandboxd and the server in the foreground on 127.0.0.1:8080 (PORT=n), until Ctrl-C; their state stays
	@scripts/setup run
	@scripts/up

down: ## stops what `make up` has started; PURGE=1 also deletes its sandboxes, images, snapshots and volumes
	@build/release/bin/osb down $(if $(PURGE),--purge) $(if $(DIR),--dir $(DIR))

bench: ## side-by-side measurements, half an hour; results in bench/results and docs/benchmarks.md. QUICK=1: only to see that it works
	@scripts/setup bench
	$(call configured,release)
	@cmake --build build/release -j $(JOBS) --target benches $(apps)
	@scripts/python-env
	@/usr/bin/python3 -B bench/run.py --build build/release $(if $(QUICK),--quick)

asan: ## unit tests and execd's contract under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(MAKE) readyasan
	@$(run_ctest) build/asan -L 'unit|sanitized'

readyasan: # all that the tests under AddressSanitizer need
	@scripts/setup build test
	@scripts/python-env
	$(call configured,asan)
	@cmake --build build/asan -j $(JOBS)

tsan: ## unit tests under ThreadSanitizer
	@scripts/setup build test
	$(call configured,tsan)
	@cmake --build build/tsan -j $(JOBS)
	@$(run_ctest) build/tsan -L unit

fuzz: ## every fuzz target for FUZZ_SECONDS (60); new inputs go to build/fuzz/corpus
	@scripts/setup build
	$(call configured,fuzz)
	@cmake --build build/fuzz -j $(JOBS) --target $(fuzzers)
	@scripts/fuzz $(FUZZ_SECONDS)

conformance: ## the official clients against our server on every backend; results in docs/conformance.md
	@scripts/setup build conformance
	@scripts/python-env
	$(call configured,release)
	@cmake --build build/release -j $(JOBS) --target execd sandboxd server egress
	@scripts/conformance

soak: ## SOAK_COMMANDS=100000 on an execd, SOAK_INTERRUPTS=1000 of code, SOAK_SANDBOXES=10000 on a sandboxd, SOAK_KILLS=200 of a server, all tests ROUNDS=20 times; at most SOAK_MINUTES=80, a fifth each
	@$(MAKE) ready
	@EXECD_BINARY=$(CURDIR)/build/release/bin/execd build/venv/bin/python -B tests/soak/commands.py --commands $(SOAK_COMMANDS) \
	  --minutes $(soak_share)
	@EXECD_BINARY=$(CURDIR)/build/release/bin/execd build/venv/bin/python -B tests/soak/code.py --rounds $(SOAK_INTERRUPTS) \
	  --minutes $(soak_share)
	@EXECD_BINARY=$(CURDIR)/build/release/bin/execd SANDBOXD_BINARY=$(CURDIR)/build/release/bin/sandboxd \
	  tests/privileged/in_namespace build/venv/bin/python -B tests/soak/sandboxes.py --sandboxes $(SOAK_SANDBOXES) \
	  --minutes $(soak_share)
	@EXECD_BINARY=$(CURDIR)/build/release/bin/execd SANDBOXD_BINARY=$(CURDIR)/build/release/bin/sandboxd \
	  SERVER_BINARY=$(CURDIR)/build/release/bin/opensandbox-server \
	  tests/privileged/in_namespace build/venv/bin/python -B tests/soak/server.py --rounds $(SOAK_KILLS) --minutes $(soak_share)
	@rounds=0; while [ $$rounds -lt $(ROUNDS) ] && [ $$SECONDS -lt $$(($(soak_share) * 60)) ]; do \
	  $(run_ctest) build/release; rounds=$$((rounds + 1)); done; echo "all tests $$rounds times"

chaos: ## CHAOS_CLIENTS=50 clients and random faults for CHAOS_MINUTES=10, then what holds; CHAOS_SEED=n again. docs/chaos.md
	@scripts/setup build test chaos
	@scripts/python-env
	$(call configured,release)
	@cmake --build build/release -j $(JOBS) --target $(apps)
	@EXECD_BINARY=$(CURDIR)/build/release/bin/execd SANDBOXD_BINARY=$(CURDIR)/build/release/bin/sandboxd \
	  SERVER_BINARY=$(CURDIR)/build/release/bin/opensandbox-server \
	  build/venv/bin/python -B tests/chaos/run.py --minutes $(CHAOS_MINUTES) --clients $(CHAOS_CLIENTS) \
	  $(if $(CHAOS_SEED),--seed $(CHAOS_SEED))

attacks: ready ## all attacks on every backend; the table in docs/attacks.md
	@rm -rf build/release/attacks
	@$(run_ctest) build/release -R privileged.attacks
	@/usr/bin/python3 -B tests/privileged/attacks/table.py build/release/attacks

fresh: ## `make test` on a fresh Debian with a /dev of its own; or ROUNDS=20 of ctest (FILTER=regex) with FRESH_CPU=0.5 processors and FRESH_LOAD=2 busy neighbours
	@scripts/setup fresh
	@/usr/bin/python3 -B tests/fresh/run.py --minutes $(FRESH_MINUTES) --jobs $(JOBS) \
	  $(if $(filter command environment,$(firstword $(origin ROUNDS))),--rounds $(ROUNDS)) $(if $(FILTER),--filter '$(FILTER)') \
	  $(if $(FRESH_CPU),--cpu $(FRESH_CPU)) $(if $(FRESH_LOAD),--load $(FRESH_LOAD)) \
	  $(if $(FRESH_CCACHE),--ccache $(FRESH_CCACHE)) $(if $(FRESH_ROOT),--root $(FRESH_ROOT))

package: build ## Debian packages in build/packages: server, sandboxd, osb, C++ SDK. docs/install.md
	@scripts/setup package
	@cmake --build build/release -j $(JOBS) --target opensandbox
	@scripts/package

packagetest: package ## the packages on a fresh Debian under systemd: install, use, upgrade, remove, purge; 2 minutes
	@scripts/setup fresh
	@/usr/bin/python3 -B tests/fresh/packages.py

fmt: ## formats the C++ sources in place
	@scripts/setup lint
	@clang-format-19 -i $(sources)

lint: ## formatting, module table, clang-tidy of the files whose path begins with LINT='(src|apps)/'; all take hours of processor time
	@scripts/setup lint
	@clang-format-19 --dry-run -Werror $(sources)
	@/usr/bin/python3 tests/shape/check_includes.py
	@cmake --preset dev -B build/lint -DOSB_PRECOMPILE=OFF >/dev/null
	@run-clang-tidy-19 -quiet -p build/lint -j $(JOBS) '^$(CURDIR)/$(LINT).*\.cc$$'

clean: ## removes build/
	rm -rf build
