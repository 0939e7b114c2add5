# Everything here works on a machine that has only Python 3.11+, git and make, without root: .venv is made on first use.

VENV := .venv
BIN  := $(VENV)/bin
FOR  ?= 60
# `make simulate SEEDS=20000` tries many, `make simulate SEED=1234` replays one.
SEEDS ?= 5000
SEED  ?=
# Processes for the tests that may share the machine; more than its cores, for most of them wait for a server.
JOBS ?= 4
ARGS ?=

ifndef PYTHON
PYTHON := $(shell for p in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
endif

# A caller's own packages must not leak into .venv.
unexport PYTHONPATH
unexport PYTHONHOME
export PIP_DISABLE_PIP_VERSION_CHECK := 1

DEV  := $(VENV)/.ready-dev
# `make demo` alone needs only the demo's packages, unless the whole set is there already.
DEMO := $(if $(wildcard $(DEV)),$(DEV),$(VENV)/.ready-demo)
PYTEST := $(BIN)/python -m pytest $(ARGS)

.DEFAULT_GOAL := help
.NOTPARALLEL:
# Targets that name no file.
.PHONY: help demo test check audit format bench long chaos simulate full clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(DEMO) ## two beats, a worker and Flower; one beat is killed half-way (FOR=seconds)
	@$(BIN)/celery-parrot demo --for $(FOR)

test: $(DEV) ## every test that CI runs
	@.ci/pytest-passes $(BIN)/python $(JOBS) $(ARGS)

check: $(DEV) ## lint, format, types, import rules, unsafe calls
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict celery_parrot tests
	@$(BIN)/lint-imports
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive celery_parrot

# Needs the advisory service (api.osv.dev), so it is no part of check: a check must not fail because somebody else is away.
audit: $(DEV) ## known holes of the packages in .venv, by the advisories on osv.dev
	@$(BIN)/pip-audit --local --skip-editable --vulnerability-service osv --progress-spinner off 2>$(VENV)/audit.log || { \
		tail -n 1 $(VENV)/audit.log >&2; \
		grep -q ConnectionError $(VENV)/audit.log && echo "Nothing was audited: the advisory service is out of reach." >&2; exit 1; }

format: $(DEV) ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV) ## benchmarks, against the recorded limits
	@$(PYTEST) -m benchmark -p no:xdist -p no:randomly || { code=$$?; [ $$code -eq 5 ] && echo "no benchmarks yet" || exit $$code; }

chaos: $(DEV) ## the long form of the e2e and chaos tests
	@$(PYTEST) --full -m "e2e or chaos" -p no:xdist

simulate: $(DEV) ## the interleaving simulator (SEEDS=count, or SEED=n to replay one)
	@$(PYTEST) -m simulation -p no:xdist $(if $(SEED),--sim-seed $(SEED),--sim-seeds $(SEEDS))

long: $(DEV) ## the long form of the other tests: every database, more seeds
	@$(PYTEST) --full -n $(JOBS) --dist loadgroup -m "not e2e and not chaos and not benchmark and not docker"

full: check test long chaos simulate bench ## all of it; takes its time

clean: ## remove .venv and every cache
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .benchmarks build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "celery-parrot needs Python 3.11 or newer and found none." >&2; \
		echo "Install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; exit 1; fi
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and "celery-parrot needs Python 3.11 or newer; $(PYTHON) is %d.%d" % v[:2] or 0)'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot make a virtual environment (Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; }

$(VENV)/.ready-demo: pyproject.toml | $(VENV)/bin/python
	@echo "Installing celery-parrot[demo] into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --quiet --editable '.[demo]'
	@touch $@

$(VENV)/.ready-dev: pyproject.toml | $(VENV)/bin/python
	@echo "Installing celery-parrot[dev] into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --quiet --editable '.[dev]'
	@touch $@
