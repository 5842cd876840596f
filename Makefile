# Every verb installs what it needs first; `make` alone lists them.

.DEFAULT_GOAL := help
.PHONY: help env demo-env demo test fast interop browser screenshots stress fuzz fuzz-computing fuzz-decoders faults soak style format types generate generate-check web web-env web-test web-check bench bench-check bench-env figures docker-check lower-bounds pins clean
SHELL := /bin/bash

VENV ?= .venv
PYTHON ?=
WORKERS ?= auto
PYTEST_ARGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=

BIN := $(VENV)/bin
export PYTHON

help: ## List the verbs and the knobs
	@echo "Usage: make VERB [KNOB=value]"
	@echo
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "Knobs:"
	@echo "  VENV=.venv      where the virtual environment is"
	@echo "  PYTHON=         the Python to make it with (3.11 or newer; found by itself)"
	@echo "  WORKERS=auto    test processes, at most one per core"
	@echo "  PYTEST_ARGS=    for pytest, as in PYTEST_ARGS='tests/engine -k append -x'"
	@echo "  CHROMIUM=       for browser: path of a Chromium or Chrome, or npm for the one from there"
	@echo "  FIREFOX=        for browser: path of a Firefox"
	@echo "  STORMS=3        for browser: storms of 150 random steps over each kind of table"
	@echo "  FRAMES=5000     for fast and test: random frames of one page, as in FRAMES=1000000 PYTEST_ARGS='tests/server/web -k random_frames -n 0'"
	@echo "  SECONDS=60      for stress: for how long"
	@echo "  SEED=0          for stress, fuzz, faults and soak: of all random choices"
	@echo "  FUZZ_SECONDS=60 for fuzz-decoders: for each; TARGETS= such as 'row_set journal'"
	@echo "  ROUNDS=20       for faults; FIRST=0 is the number of the first one"
	@echo "  INPUTS=100000   for fuzz-computing: of each kind; COMPUTING_ARGS=--collect keeps those that reach what no other does"
	@echo "  CALLS=100000    for fuzz: per endpoint"
	@echo "  ENDPOINT=       for fuzz: flight, grpc (its other front), deephaven or web; all when left out"
	@echo "  UPDATES=1000000, SESSIONS=10000  for soak; UPDATES=3000 for browser: painted to see that memory is flat"
	@echo "  STRESS_ARGS=, FUZZ_ARGS=, FAULTS_ARGS=, SOAK_ARGS=  such as '--depth 0 --plain', '--survey', '--no-spark', '--memory'"
	@echo "  DEMO_ARGS=      for the demo, as in DEMO_ARGS='--seconds 30 --keep-serving'"
	@echo "  ONLY=           benchmarks, as in ONLY='doget viewport'"
	@echo "  QUICK=          1: benchmarks with small tables and short times, without Perspective, some five minutes"
	@echo "  RESULTS=        for bench-check, as in RESULTS=.bench/quick/results.json"
	@echo "  BENCH_ARGS=     for the benchmarks, as in BENCH_ARGS='--results other.json', or ONLY=web BENCH_ARGS='--row jump'"

env: ## Make the virtual environment with everything that the tests need, from the pinned sets
	@scripts/make-env $(VENV) server deephaven auth spark compiled notebook dev

demo-env:
	@scripts/make-env $(VENV) server deephaven auth spark

demo: demo-env ## Replay 336,776 real flights through Spark into live tables, and check every cell
	@$(BIN)/barrage-server demo $(DEMO_ARGS)

test: env web-env ## Run the whole test suite (real Spark included), but for the tests against peers and in a browser
	@$(if $(FRAMES),FRAMES=$(FRAMES)) $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal -m "not interop and not browser" --durations=15 $(PYTEST_ARGS)

fast: env web-env ## Run the tests that need neither Spark nor much time
	@$(if $(FRAMES),FRAMES=$(FRAMES)) $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal -m "not spark and not slow and not interop and not browser" $(PYTEST_ARGS)

interop: env ## Test against the real thing: Deephaven's server and clients; DEEPHAVEN_TESTS=folder has its own tests run
	@scripts/make-interop-env .interop || echo "the tests that need what is missing say so" >&2
	@$(if $(DEEPHAVEN_TESTS),DEEPHAVEN_TESTS=$(abspath $(DEEPHAVEN_TESTS))) $(BIN)/python -m pytest -m interop tests/interop $(PYTEST_ARGS)

browser: env ## Test the page, and the widget in a JupyterLab, in a real Chromium, installed or from npm, and in Firefox
	@scripts/make-browser-env $(VENV) .web
	@$(if $(STORMS),STORMS=$(STORMS)) $(if $(UPDATES),UPDATES=$(UPDATES)) $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 2 --dist worksteal -m browser tests/browser tests/benchmarks --durations=10 $(PYTEST_ARGS)

screenshots: env ## Make the pictures of docs/web.md anew, in a real Chromium
	@scripts/make-browser-env $(VENV) .web
	@PYTHONPATH=.:generated $(BIN)/python scripts/screenshots

stress: env ## Writers, subscribers and disturbances for SECONDS=, from SEED=; every replica must equal its table
	@PYTHONPATH=.:generated $(BIN)/python -X faulthandler -m tests.stress --seconds $(or $(SECONDS),60) --seed $(or $(SEED),0) $(STRESS_ARGS)

fuzz: env ## Damaged calls to live servers: CALLS= per endpoint, from SEED=, of one ENDPOINT= or all
	@PYTHONPATH=.:generated $(BIN)/python -X faulthandler -m tests.fuzz --calls $(or $(CALLS),100000) --seed $(or $(SEED),0) $(if $(ENDPOINT),--endpoint $(ENDPOINT)) $(FUZZ_ARGS)

soak: env ## UPDATES= cycles and SESSIONS= clients, from SEED=; memory, threads and descriptors must stay as they are
	@PYTHONPATH=.:generated $(BIN)/python -X faulthandler -m tests.soak --updates $(or $(UPDATES),1000000) --sessions $(or $(SESSIONS),10000) --seed $(or $(SEED),0) $(SOAK_ARGS)

fuzz-computing: env ## Formulas, plans and batches, changed at random and computed: INPUTS= of each kind, from SEED=
	@PYTHONPATH=.:generated $(BIN)/python -X faulthandler -m tests.fuzz.computing --inputs $(or $(INPUTS),100000) --seed $(or $(SEED),1) $(COMPUTING_ARGS)

fuzz-decoders: env ## Each decoder under atheris for FUZZ_SECONDS=, or those of TARGETS=
	@scripts/make-env $(VENV) fuzz
	@PYTHONPATH=.:generated $(BIN)/python -m tests.fuzz.decoders $(TARGETS) --seconds $(or $(FUZZ_SECONDS),60) --seed $(or $(SEED),1)

faults: env ## Crashes, full disks, lost connections: ROUNDS= rounds from SEED=, beginning with FIRST=; nothing is lost or doubled
	@PYTHONPATH=.:generated $(BIN)/python -X faulthandler -m tests.faults --rounds $(or $(ROUNDS),20) --seed $(or $(SEED),0) --first $(or $(FIRST),0) $(FAULTS_ARGS)

style: env ## Check lint and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

format: env ## Format the code, and fix what lint can fix
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: env ## Check types (mypy --strict)
	@$(BIN)/mypy

generate: env ## Build generated/ from schema/
	@$(BIN)/python scripts/generate

generate-check: env ## Fail when generated/ is not what schema/ makes
	@$(BIN)/python scripts/generate --check

web: web-env ## Build the page and the notebook widget from web/ into their folders static, with a Node from requirements/web.txt
	@scripts/build-web

web-test: env web-env ## Test the page's code in Node, alone and against Python (make test does it too)
	@$(BIN)/python -m pytest tests/web $(PYTEST_ARGS)

web-check: web-env ## Fail when the committed page or widget is not what web/ makes
	@scripts/build-web --check

web-env:
	@scripts/make-web-env .web

bench: bench-env ## Measure beside the peers: all, or one (ONLY=), in full or quickly (QUICK=1)
	@$(BIN)/python -m benchmarks $(if $(QUICK),--quick) $(addprefix --only ,$(ONLY)) $(BENCH_ARGS)
	@$(if $(QUICK),,$(BIN)/python scripts/figures && .bench/plots/bin/python scripts/plots)

bench-check: env ## Compare the last results, or RESULTS=file, with the targets
	@$(BIN)/python -m benchmarks.check $(if $(RESULTS),--results $(RESULTS)) $(addprefix --only ,$(ONLY))

bench-env: env
	@scripts/make-bench-env .bench || echo "what is missing is not measured" >&2
	@scripts/make-browser-env $(VENV) .web chromium || echo "without a browser no page is measured" >&2

figures: env ## Put the figures of the last full benchmark run into the documents, and draw its plots
	@scripts/make-bench-env .bench plots
	@$(BIN)/python scripts/figures
	@.bench/plots/bin/python scripts/plots

docker-check: env ## Check the compose file, and run the image's install script and server without Docker
	@VENV=$(VENV) scripts/docker-check

lower-bounds: env ## Run the tests with the oldest versions that pyproject.toml allows
	@$(BIN)/python scripts/lower-bounds

pins: ## Resolve requirements/*.txt anew from the newest versions
	@scripts/pins

clean: ## Remove what the verbs above made
	rm -rf $(VENV) .interop .web web/node_modules .bench .demo .fuzz .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
