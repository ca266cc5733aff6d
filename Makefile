# Everything a contributor types. `make help` lists it; each target also works alone from an empty clone.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: 000 001 002 003 004 paper help demo test test-full test-busy check fmt fmt-check clippy deny bench soak miri loom asan tsan fuzz docs bootstrap peers steps-sqlite build package package-corun

CARGO ?= cargo
TARGET = $(shell $(CARGO) metadata --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')

# One fixed selection of packages for each purpose, so that DataFusion is compiled once for all of them; a test compares them.
DEMO := -p corun-lab --no-default-features --features engine
PROGRAMS := -p corun -p corun-sql -p corun-lab
# Crates without DataFusion are tested in the dev profile (debug assertions on, seconds to build), the others in the release profile.
SMALL := -p corun-model -p corun-topology -p corun-cachesim -p corun-resctrl -p corun-net -p corun-wire -p corun-machine -p corun-exec -p corun-store-derive -p corun-store \
	-p corun-pooler -p corun-cli -p lab-core --features corun-exec/allocator
LARGE := --features corun-datafusion/coordinator,corun-datafusion/store -p corun-datafusion -p corun-distributed -p corun-server -p corun-workloads -p corun-sql -p lab-engine \
	-p lab-cpu -p lab-postgres -p corun-lab -p corun -p corun-python
# Through cargo, which knows the target folder however it was set: by environment, by a configuration file, or not at all.
CORUN_LAB = $(CARGO) run --release --quiet -p corun-lab --

# The one place that names the nightly toolchain. It serves Miri, sanitizers and fuzzing only; nothing shipped is built with it.
export NIGHTLY ?= nightly-2026-05-20
FUZZ_SECONDS ?= 60
BUSY_RUNS ?= 10
SOAK_MINUTES ?= 20
SOAK_KILLS ?= 1000
DEMO_FLAGS ?=
BENCH_FLAGS ?=
STEPS_SQLITE ?=
# A workspace of its own; its SQLite takes a minute to compile.
STEPS_SQLITE_CARGO = CARGO_TARGET_DIR="$(TARGET)/steps-sqlite" $(CARGO)
BENCH_SUITES ?= floor join ssb tpch tpcds h2o memory-latency llc oltp instruction-cache proxy key-ranges heavy-queue serve

help: ## list the targets
	@echo "usage: make TARGET"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(firstword $(MAKEFILE_LIST)) | while IFS='|' read -r name text; do printf '%-12s %s\n' "$$name" "$$text"; done

bootstrap:
	@scripts/bootstrap

build: bootstrap ## the programs corun, corun-sql and corun-lab
	$(CARGO) build --release -p corun -p corun-sql -p corun-lab

package: build ## Debian packages and tarballs of the programs, with checksums
	@scripts/package-deb "$(TARGET)/release" "$(TARGET)/packages"
	@scripts/package-tar "$(TARGET)/release" "$(TARGET)/packages"

package-corun: bootstrap ## the Debian package of the pooler alone, without compiling DataFusion
	$(CARGO) build --release -p corun
	@scripts/package-deb "$(TARGET)/release" "$(TARGET)/packages" corun

demo: bootstrap ## the main job: a mixed concurrent workload, stock joins against corun's (DEMO_FLAGS=...)
	$(CARGO) build --release -p corun-lab --no-default-features --features engine
	$(CARGO) run --release --quiet $(DEMO) -- demo $(DEMO_FLAGS)

test: bootstrap ## every test, every suite in its quick form; ends with "N passed, N failed, N skipped"
	@scripts/test

test-full: bootstrap ## also what takes longer: aarch64 under emulation, packages, crates as published, a scratch project with DataFusion
	@scripts/test --full

test-busy: bootstrap ## the tests of the crates without DataFusion, BUSY_RUNS times beside a load; names those that failed in any run
	@scripts/test-busy $(BUSY_RUNS) $(SMALL)

check: fmt-check clippy deny test ## what a change must pass: formatting, lints, dependency policy, tests, doctests

fmt: bootstrap ## format the sources
	$(CARGO) fmt --all

fmt-check: bootstrap
	$(CARGO) fmt --all -- --check

clippy: bootstrap
	$(CARGO) clippy $(SMALL) --all-targets -- -D warnings
	$(CARGO) clippy --release $(LARGE) --all-targets -- -D warnings

deny: bootstrap
	@scripts/need cargo-deny "cargo install cargo-deny --locked"
	$(CARGO) deny check licenses bans sources

peers: bootstrap
	@scripts/bootstrap --peers

bench: build ## every benchmark suite, recorded under records (BENCH_SUITES=..., BENCH_FLAGS=...)
	@scripts/bootstrap --peers || echo "bench: goes on without the peers" >&2
	@set -e; for suite in $(BENCH_SUITES); do \
		echo "== corun-lab bench $$suite $(BENCH_FLAGS)"; $(CORUN_LAB) bench $$suite --out records $(BENCH_FLAGS); \
	done

# `make paper 003`: the number is a second goal that does nothing.
000 001 002 003 004:
	@:

paper: build ## one paper's figures end to end: make paper 000, 001, 002, 003 or 004 (PAPER_FLAGS=--quick); pages and records below target/paper
	@scripts/paper "$(TARGET)" "$(word 2,$(MAKECMDGOALS))" $(PAPER_FLAGS)

steps-sqlite: bootstrap ## teams for an engine nobody changed: SQLite, patched (STEPS_SQLITE="choose --profile FILE", "bench --help", ...)
	$(STEPS_SQLITE_CARGO) build --quiet --locked --release --manifest-path peers/steps-sqlite/Cargo.toml
	@# Where the linker puts functions decides which share a set of the cache: a profile is for a build.
	@set -e; program="$(TARGET)/steps-sqlite/release/steps-sqlite"; profile="$(TARGET)/steps-sqlite/chosen.ctx"; set -- $(STEPS_SQLITE); \
		if [ $$# != 0 ]; then exec "$$program" "$$@"; fi; \
		"$$program" choose --profile "$$profile"; "$$program" bench --profile "$$profile"

soak: build ## long runs: many more property-test cases and rounds, SOAK_KILLS kills, SQL that writes beside PostgreSQL, the peers' own tests, PostgreSQL's and drivers' suites through the proxy, the demo for SOAK_MINUTES
	PROPTEST_CASES=20000 STORE_ROUNDS=30 $(CARGO) test --release $(SMALL)
	@# Clients that listen, restarts and cancels in numbers.
	CORUN_TEST_LISTENERS=1000 CORUN_TEST_CHANNELS=100 CORUN_TEST_RESTARTS=100 CORUN_TEST_CANCELS=1000 \
		$(CARGO) test --release -p corun-pooler --test all -- faults::listeners faults::cancels peers::
	@scripts/crash-soak "$(SOAK_KILLS)" "$(TARGET)/crash-soak.jsonl"
	@# SQL that writes: random statements beside PostgreSQL's, ten minutes of histories, a server that is killed.
	CORUN_TEST_ROUNDS=200 CORUN_TEST_SECONDS=600 CORUN_TEST_KILLS=$(SOAK_KILLS) $(CARGO) test --release $(LARGE) --test oracle
	$(CARGO) test --release --manifest-path peers/oltp/Cargo.toml
	$(STEPS_SQLITE_CARGO) test --locked --release --manifest-path peers/steps-sqlite/Cargo.toml
	@scripts/soak "$(TARGET)/release" "$(SOAK_MINUTES)"
	@# Suites of others through the proxy; what differs from a direct connection is listed.
	-@for version in 15 18; do CORUN="$(TARGET)/release/corun" scripts/pg-regress corun --version $$version; done
	-@CORUN="$(TARGET)/release/corun" scripts/drivers corun

miri: bootstrap ## every unsafe path of exec and store under Miri, in three minutes (nightly)
	@scripts/nightly miri rust-src >/dev/null
	$(CARGO) +$$(scripts/nightly 2>/dev/null) miri test -p corun-exec --test all -- small:: stage_set:: --skip shared_csb_small::
	$(CARGO) +$$(scripts/nightly 2>/dev/null) miri test -p corun-exec --lib -- teams::ring
	@# The lists of the epochs behind the indexes break the aliasing rules Miri proposes, and what waits in them at the end was not
	@# freed: these two checks are off here.
	set -e; export MIRIFLAGS="-Zmiri-disable-stacked-borrows -Zmiri-permissive-provenance -Zmiri-ignore-leaks"; \
		nightly=$$(scripts/nightly 2>/dev/null); \
		$(CARGO) +$$nightly miri test -p corun-exec --test all -- shared_csb_small::; $(CARGO) +$$nightly miri test -p corun-store --test all -- small::

loom: bootstrap ## every interleaving of the two threads of a work-ahead set, in seconds once built
	@scripts/loom

# The sanitizers' runs build no examples, so the test that runs them is left out. They know nothing of stacks that a program switches
# between, so tests of teams are, too.
asan: bootstrap ## exec, machine and store under the address sanitizer (nightly)
	@scripts/nightly >/dev/null
	ASAN_OPTIONS=allocator_may_return_null=1 RUSTFLAGS=-Zsanitizer=address $(CARGO) +$$(scripts/nightly 2>/dev/null) test -p corun-exec -p corun-machine -p corun-store --lib --tests \
		--target $$(rustc -vV | sed -n 's/^host: //p') -- --skip example_programs_run --skip teams::

# The standard library is built with the sanitizer too: without that its locks and joins look like races. Tests ask for memory that
# cannot be had and expect a null pointer.
tsan: bootstrap ## the threads of exec and store under the thread sanitizer (nightly)
	@scripts/nightly rust-src >/dev/null
	TSAN_OPTIONS=allocator_may_return_null=1 RUSTFLAGS=-Zsanitizer=thread $(CARGO) +$$(scripts/nightly 2>/dev/null) test -p corun-exec -p corun-store --lib --tests \
		-Zbuild-std --no-fail-fast --target $$(rustc -vV | sed -n 's/^host: //p') -- --skip example_programs_run --skip teams::

fuzz: bootstrap ## each fuzz target for FUZZ_SECONDS (nightly, cargo-fuzz)
	@scripts/nightly >/dev/null
	@scripts/need cargo-fuzz "cargo install cargo-fuzz --locked"
	@scripts/fuzz "$$(scripts/nightly 2>/dev/null)" $(FUZZ_SECONDS)

docs: bootstrap ## the manual (mdBook) and the crates' documentation
	@scripts/need mdbook "cargo install mdbook --locked"
	mdbook build docs -d "$(abspath $(TARGET))/book"
	$(CARGO) doc --no-deps $(SMALL)
	@echo "manual: $(TARGET)/book/index.html   crates: $(TARGET)/doc/corun_exec/index.html"
