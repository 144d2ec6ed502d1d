# Everything the project needs is installed into .venv from requirements.lock (hashes, no addresses).
# A machine needs Python 3.11 or newer and make.
PYTHON ?= python3
PORT ?= 8080
# Lambda's Python that the layer is for, or all.
PYTHON_VERSION ?= 3.13
# So many processes share the tests, more than two cores because many tests wait for processes.
# `MARKED=` runs those of `make proof`, too.
WORKERS ?= 3
MARKED ?= not proof
# How long `make soak` and `make fuzz` last.
MINUTES ?= 10
# How many random schedules `make simulate` runs, from the seed FIRST on; LOG=FILE adds up several runs.
SEEDS ?= 10000
BIN := .venv/bin
READY := .venv/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PYTHON_SOURCES := layer functions infra tests

.DEFAULT_GOAL := help
.PHONY: help demo dev test chromium proof simulate mutants fuzz soak bench check mypy pyright fix layer synth deploy-local lock clean

help:  ## what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "oncekey needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing into .venv (once)"
	@awk '/^[a-z]/ { own = /^uv==/ } own' requirements.lock > .venv/uv.lock
	@$(PIP) --require-hashes --requirement .venv/uv.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --requirement requirements.lock || \
		{ echo "uv reads no pip.conf: pip installs, which takes minutes"; \
		$(PIP) --require-hashes --requirement requirements.lock; }
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY)  ## play retried, raced, killed and lost requests against the real service, locally
	@$(BIN)/oncekey demo

dev: $(READY)  ## run the reference service on http://127.0.0.1:8080 (or PORT=...)
	@$(BIN)/oncekey dev --port $(PORT)

# Services and functions that the tests start are compiled once, whatever the shell says.
test proof: export PYTHONDONTWRITEBYTECODE =

test: $(READY) chromium  ## run the tests, without those of `make proof`
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "$(MARKED)"

# The browser of the console's test. Where it can be neither found nor installed, the test is skipped and says so.
chromium:
	@if ! command -v chromium >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing chromium for the console's test (once)"; \
		install="apt-get install --yes -qq --no-install-recommends chromium"; \
		$$install >/dev/null 2>&1 || { apt-get update -qq && $$install; } >/dev/null 2>&1 || true; \
	fi

proof: $(READY)  ## run the largest worlds, the kill matrices and the deployments
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m proof

simulate: $(READY)  ## run SEEDS=10000 random schedules of simulated services; a failing seed says how to replay it
	$(BIN)/python -m tests.simulation.simulate --seeds $(SEEDS) $(if $(FIRST),--first $(FIRST)) $(if $(LOG),--log $(LOG))

# `ROOM=record` takes one room alone, `SAMPLE=` and `SEED=` say which faults.
mutants: $(READY)  ## weaken the layer in hundreds of places, and see a test fail for each; half an hour
	$(BIN)/python -m tests.mutants $(if $(ROOM),--room $(ROOM)) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED))

fuzz: $(READY)  ## give the parsers inputs that reach new lines in them; MINUTES=10, SEED=...
	@$(BIN)/python -m tests.support.guided --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

soak: $(READY)  ## the running service under every fault at once; MINUTES=10
	SOAK_MINUTES=$(MINUTES) $(BIN)/python -m pytest -q -s tests/e2e/test_everything_at_once.py

bench: $(READY)  ## measure oncekey, Powertools and bare boto3; write the benchmarks page; ten minutes
	$(BIN)/python -m tests.benchmarks --write

check: $(READY)  ## lint, format, types; edits nothing
	$(BIN)/ruff check $(PYTHON_SOURCES)
	$(BIN)/ruff format --check $(PYTHON_SOURCES)
	@$(MAKE) --no-print-directory --jobs 2 mypy pyright

mypy: $(READY)
	$(BIN)/mypy

# Named, because pyright prefers a configuration of any folder above.
pyright: $(READY)
	$(BIN)/pyright --project pyproject.toml

fix: $(READY)  ## apply the linter's fixes and the formatter
	$(BIN)/ruff check --fix $(PYTHON_SOURCES)
	$(BIN)/ruff format $(PYTHON_SOURCES)

layer: $(READY)  ## bundle the layer for both processors; PYTHON_VERSION=3.12, or all of 3.11 to 3.14
	@$(BIN)/python -m infra.layer_bundle --python $(PYTHON_VERSION) --architecture all

synth: $(READY)  ## synthesise the CloudFormation templates into cdk.out
	@rm -rf cdk.out
	@$(BIN)/python -m infra.app
	@ls cdk.out/*.template.json
	@$(BIN)/python -m infra.layer_bundle

deploy-local: $(READY)  ## deploy both stacks to moto and to ministack with the CDK, and use them
	@$(BIN)/python -m infra.local_deployment

lock: $(READY)  ## resolve the dependencies again into requirements.lock
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 \
		--generate-hashes --no-header --no-annotate --upgrade --quiet -o requirements.lock
	$(BIN)/uv pip compile infra/ministack.in --universal --python-version 3.11 \
		--generate-hashes --no-header --no-annotate --upgrade --quiet -o infra/ministack.lock

clean:  ## remove what make and the tests made
	rm -rf .venv cdk.out .bundles .mypy_cache .ruff_cache .hypothesis .schemathesis
	find layer functions infra tests -name __pycache__ -prune -exec rm -rf {} +
