# Everything is installed into .venv, with the versions of constraints.txt.
# Each stamp in .venv says which set-up is complete; an interrupted one is redone.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

# Tests and benchmarks start the program hundreds of times: where Python may not store what it
# compiles, each start compiles all that it imports (9.5 s for a fit's modules, else 3.4 s).
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MADE := $(VENV)/.made
SCAN := $(VENV)/.installed-scan
DEV := $(VENV)/.installed-dev
DOCS := $(VENV)/.installed-docs
BENCH := $(VENV)/.installed-bench

# It prints what it does, with seconds.
INSTALL := $(BIN)/python tools/set_up.py
SET_UP_FAILED := { echo "Set-up failed, see above. Once the cause is fixed, run make again: set-up resumes where it stopped." >&2; exit 1; }

# Runs under any Python, so that an old one can say its version.
SHOW_VERSION := import sys; print("%d.%d.%d" % sys.version_info[:3]); sys.exit(sys.version_info < (3, 12))

# The tables of docs/reference/performance.md that one hour measures.
SPEED := first_fit sampling many scale peers compiling report

.PHONY: help demo test lint bench bench-all docs clean

help:
	@echo "make demo   run an example and write its report to demo/"
	@echo "make test   run the tests"
	@echo "make lint   check style, format and types"
	@echo "make bench  measure the speed of fits beside others' (about an hour)"
	@echo "make bench-all  run all benchmarks: speed, recovery, published figures (a day or more)"
	@echo "make docs   build the documentation into docs/_build/html"
	@echo "make clean  remove what the above wrote (.venv stays)"
	@echo
	@echo "The first run of each installs what it needs into .venv."
	@echo "Another Python: make PYTHON=/path/to/python3.13 demo"

demo: $(SCAN)
	@echo "Running the demo; Python compiles what it imports the first time ..."
	@$(BIN)/bayescontam demo --out demo

# By file, so that what a file fits once for all its tests is not fitted on both cores; and in
# the order of tests/conftest.py: by itself xdist begins with the files of most tests. One thread
# each: torch and BLAS start one for every core, and two workers have none to spare.
test: $(DEV)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=10

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(BENCH)
	@$(BIN)/python -m pytest $(SPEED:%=benchmarks/test_%.py) -k "not same_posterior" -s -n 0

bench-all: $(BENCH)
	@$(BIN)/python -m pytest benchmarks -s -n 0

docs: $(DOCS)
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "Documentation: docs/_build/html/index.html"

clean:
	rm -rf demo demo-scan scan.html build dist docs/_build docs/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find bayescontam tests docs -type d -name __pycache__ -prune -exec rm -rf {} +

# A .venv that works and is new enough remains, whatever PYTHON is; any other is made anew.
$(MADE): pyproject.toml constraints.txt
	@if $(BIN)/python -c '$(SHOW_VERSION)' >/dev/null 2>&1 && $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	    echo "Using the Python $$($(BIN)/python -c '$(SHOW_VERSION)') of $(VENV)."; \
	else \
	    if ! found=$$($(PYTHON) -c '$(SHOW_VERSION)' 2>&1); then \
	        { echo "bayescontam needs Python 3.12 or newer."; \
	          echo "Found:  '$(PYTHON)' answered: $$found"; \
	          echo "To do:  install one (for example: pyenv install 3.13)"; \
	          echo "        or name one:  make PYTHON=/path/to/python3.13 $(MAKECMDGOALS)"; } >&2; \
	        exit 1; \
	    fi; \
	    echo "Making $(VENV) with Python $$found ..."; \
	    $(PYTHON) -m venv --clear $(VENV) || $(SET_UP_FAILED); \
	fi
	@touch $@

$(SCAN): $(MADE)
	@echo "Installing bayescontam with the extra 'scan' into $(VENV) (once; about 5 GB with torch) ..."
	@$(INSTALL) '.[scan]' || $(SET_UP_FAILED)
	@touch $@

$(DEV): $(MADE)
	@echo "Installing the tools for tests and checks, and the extras 'jax', 'scan', 'lab', 'ray', 'duplicates' and 'arc' (once) ..."
	@$(INSTALL) '.[dev,jax,scan,wordllama,lab,ray,duplicates,arc]' || $(SET_UP_FAILED)
	@touch $@

# An example of the gallery scans a corpus.
$(DOCS): $(SCAN)
	@echo "Installing the tools for the documentation (once) ..."
	@$(INSTALL) '.[docs,scan]' || $(SET_UP_FAILED)
	@touch $@

$(BENCH): $(DEV)
	@echo "Installing what the benchmarks compare with (once) ..."
	@$(INSTALL) '.[dev,jax,scan,wordllama,lab,ray,duplicates,arc,bench]' || $(SET_UP_FAILED)
	@touch $@
