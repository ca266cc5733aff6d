# Everything a contributor types. `make help` lists it; each target also works alone from an empty clone.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test check fmt fmt-check clippy deny bench soak miri loom asan tsan fuzz docs bootstrap peers steps-sqlite build package

CARGO ?= cargo
# Through cargo, which knows the target folder however it was set: by environment, by a configuration file, or not at all.
CORUN := $(CARGO) run --release --quiet -p corun --
TARGET = $(shell $(CARGO) metadata --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')

# Crates without DataFusion are tested in the dev profile (debug assertions on, seconds to build). The others only ever build
# in the release profile, so that DataFusion is compiled once.
SMALL := -p model -p cachesim -p machine -p exec -p store -p oltp -p proxy
LARGE := -p fusion -p bench -p corun

# The one place that names the nightly toolchain. It serves Miri, sanitizers and fuzzing only; nothing shipped is built with it.
export NIGHTLY ?= nightly-2026-05-20
FUZZ_SECONDS ?= 60
SOAK_MINUTES ?= 20
SOAK_KILLS ?= 1000
DEMO_FLAGS ?=
BENCH_FLAGS ?=
STEPS_SQLITE ?=
# A workspace of its own; its SQLite takes a minute to compile.
STEPS_SQLITE_CARGO = CARGO_TARGET_DIR="$(TARGET)/steps-sqlite" $(CARGO)
BENCH_SUITES ?= floor join ssb tpch smt llc oltp steps proxy caric mcc

help: ## list the targets
	@echo "usage: make TARGET"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(firstword $(MAKEFILE_LIST)) | while IFS='|' read -r name text; do printf '%-12s %s\n' "$$name" "$$text"; done

bootstrap:
	@scripts/bootstrap

build: bootstrap
	$(CARGO) build --release -p corun

package: build ## a Debian package of the program, the unit of `corun proxy` and its configuration
	@scripts/package-deb "$(TARGET)/release/corun" "$(TARGET)"

demo: build ## the main job: a mixed concurrent workload, stock joins against corun's (DEMO_FLAGS=...)
	$(CORUN) demo $(DEMO_FLAGS)

test: bootstrap ## every test, every suite in its quick form; ends with "N passed, N failed"
	@scripts/test

check: fmt-check clippy test deny ## what a change must pass: formatting, lints, tests, doctests, dependency policy

fmt: bootstrap ## format the sources
	$(CARGO) fmt --all

fmt-check: bootstrap
	$(CARGO) fmt --all -- --check

clippy: bootstrap
	$(CARGO) clippy $(SMALL) --all-targets -- -D warnings
	$(CARGO) clippy --release $(LARGE) --all-targets -- -D warnings

deny: bootstrap
	@scripts/need cargo-deny "cargo install cargo-deny --locked"
	$(CARGO) deny check

peers: bootstrap
	@scripts/bootstrap --peers

bench: build ## every benchmark suite, recorded under bench/records (BENCH_SUITES=..., BENCH_FLAGS=...)
	@scripts/bootstrap --peers || echo "bench: goes on without the peers" >&2
	@set -e; for suite in $(BENCH_SUITES); do \
		echo "== corun bench $$suite $(BENCH_FLAGS)"; $(CORUN) bench $$suite --record bench/records $(BENCH_FLAGS); \
	done

steps-sqlite: bootstrap ## teams for an engine nobody changed: SQLite, patched (STEPS_SQLITE="choose --profile FILE", "bench --help", ...)
	$(STEPS_SQLITE_CARGO) build --quiet --locked --release --manifest-path peers/steps-sqlite/Cargo.toml
	@# Where the linker puts functions decides which share a set of the cache: a profile is for a build.
	@set -e; program="$(TARGET)/steps-sqlite/release/steps-sqlite"; profile="$(TARGET)/steps-sqlite/chosen.ctx"; set -- $(STEPS_SQLITE); \
		if [ $$# != 0 ]; then exec "$$program" "$$@"; fi; \
		"$$program" choose --profile "$$profile"; "$$program" bench --profile "$$profile"

soak: build ## long runs: many more property-test cases and rounds, SOAK_KILLS kills, the peers' own tests, PostgreSQL's and drivers' suites through the proxy, the demo for SOAK_MINUTES
	PROPTEST_CASES=20000 STORE_ROUNDS=30 $(CARGO) test --release $(SMALL)
	@scripts/crash-soak "$(SOAK_KILLS)" "$(TARGET)/crash-soak.jsonl"
	$(CARGO) test --release --manifest-path peers/oltp/Cargo.toml
	$(STEPS_SQLITE_CARGO) test --locked --release --manifest-path peers/steps-sqlite/Cargo.toml
	@scripts/soak "$(TARGET)/release/corun" "$(SOAK_MINUTES)"
	@# Suites of others through the proxy; what differs from a direct connection is listed.
	-@CORUN="$(TARGET)/release/corun" scripts/pg-regress corun
	-@CORUN="$(TARGET)/release/corun" scripts/drivers corun

miri: bootstrap ## every unsafe path of exec and store under Miri, in three minutes (nightly)
	@scripts/nightly miri rust-src >/dev/null
	$(CARGO) +$$(scripts/nightly 2>/dev/null) miri test -p exec --test small --test csb_small \
		--test stage_small --test stage_set --test operators_small
	$(CARGO) +$$(scripts/nightly 2>/dev/null) miri test -p exec --lib -- teams::ring
	@# The lists of the epochs behind the indexes break the aliasing rules Miri proposes, and what waits in them at the end was not
	@# freed: these two checks are off here.
	set -e; export MIRIFLAGS="-Zmiri-disable-stacked-borrows -Zmiri-permissive-provenance -Zmiri-ignore-leaks"; \
		nightly=$$(scripts/nightly 2>/dev/null); \
		$(CARGO) +$$nightly miri test -p exec --test shared_csb_small; $(CARGO) +$$nightly miri test -p store --test small

loom: bootstrap ## every interleaving of the two threads of a work-ahead set, in seconds once built
	@scripts/loom

# The sanitizers' runs build no examples, so the test that runs them is left out. They know nothing of stacks that a program switches
# between, so tests of teams are, too.
asan: bootstrap ## exec, machine and store under the address sanitizer (nightly)
	@scripts/nightly >/dev/null
	RUSTFLAGS=-Zsanitizer=address $(CARGO) +$$(scripts/nightly 2>/dev/null) test -p exec -p machine -p store --lib --tests \
		--target $$(rustc -vV | sed -n 's/^host: //p') -- --skip example_programs_run --skip teams::

# The standard library is built with the sanitizer too: without that its locks and joins look like races. Tests ask for memory that
# cannot be had and expect a null pointer.
tsan: bootstrap ## the threads of exec and store under the thread sanitizer (nightly)
	@scripts/nightly rust-src >/dev/null
	TSAN_OPTIONS=allocator_may_return_null=1 RUSTFLAGS=-Zsanitizer=thread $(CARGO) +$$(scripts/nightly 2>/dev/null) test -p exec -p store --lib --tests \
		-Zbuild-std --no-fail-fast --target $$(rustc -vV | sed -n 's/^host: //p') -- --skip example_programs_run --skip teams::

fuzz: bootstrap ## each fuzz target for FUZZ_SECONDS (nightly, cargo-fuzz)
	@scripts/nightly >/dev/null
	@scripts/need cargo-fuzz "cargo install cargo-fuzz --locked"
	@scripts/fuzz "$$(scripts/nightly 2>/dev/null)" $(FUZZ_SECONDS)

docs: bootstrap ## the manual (mdBook) and the crates' documentation
	@scripts/need mdbook "cargo install mdbook --locked"
	mdbook build docs -d "$(abspath $(TARGET))/book"
	$(CARGO) doc --no-deps $(SMALL)
	@echo "manual: $(TARGET)/book/index.html   crates: $(TARGET)/doc/exec/index.html"
