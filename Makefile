# Two commands do everything: `make lab` and `make test`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# An extra package index for the CPU build of torch; see the README.
TORCH_INDEX ?=
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt
ifneq ($(TORCH_INDEX),)
PIP_INSTALL += --extra-index-url $(TORCH_INDEX)
endif

# Tests keep their caches here, and never reach for a model hub.
TEST_ENV := HF_HUB_OFFLINE=1 RAGLAB_CACHE=$(CURDIR)/.cache PYTHONHASHSEED=0 \
  RAGLAB_PROGRESS=$(CURDIR)/.cache/progress.jsonl
NOTEBOOKS := $(wildcard notebooks/*.ipynb)

.PHONY: help lab install test lint types unit notebooks browser bench execute
.DEFAULT_GOAL := help

help: ## show these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

lab: install ## install what is needed, build the index, open JupyterLab at notebook 00
	$(BIN)/raglab index
	$(BIN)/raglab lab

install: $(VENV)/installed ## create .venv and install the lab

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	@echo "installing (a few minutes the first time)"
	$(PIP_INSTALL) -e ".[docs]"
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(PIP_INSTALL) -e ".[dev]"
	@touch $@

test: lint types unit notebooks ## everything that CI runs: lint, types, unit, doctests, browser, notebooks

lint: $(VENV)/installed-dev ## ruff, check and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev ## mypy
	$(BIN)/mypy

unit: $(VENV)/installed-dev browser ## unit tests, doctests and browser tests
	$(TEST_ENV) $(BIN)/pytest --doctest-modules raglab tests

notebooks: $(VENV)/installed-dev ## run each notebook and compare every output, letter for letter
	$(TEST_ENV) $(BIN)/pytest --nbval --nbval-current-env --nbval-sanitize-with=tests/nbval.cfg \
	  --nbval-cell-timeout=1800 --nbval-kernel-startup-timeout=120 $(NOTEBOOKS)

execute: $(VENV)/installed-dev ## run the notebooks and keep their outputs in the files
	$(TEST_ENV) $(BIN)/python tests/execute_notebooks.py $(NOTEBOOKS)

browser: ## install Chromium where it is missing and apt is there
	@sh tests/chromium.sh

bench: $(VENV)/installed-dev ## print the figures that the README states
	$(PIP_INSTALL) -e ".[bench]"
	HF_HUB_OFFLINE=1 $(BIN)/python tests/bench/figures.py
	$(BIN)/python tests/bench/sparse.py
	$(TEST_ENV) PYTHONPATH=tests $(BIN)/python tests/bench/explorer.py
ifneq ($(RAGLAB_SCIFACT),)
	HF_HUB_OFFLINE=1 $(BIN)/python tests/bench/rerank.py
	HF_HUB_OFFLINE=1 $(BIN)/python tests/bench/storage.py
	HF_HUB_OFFLINE=1 $(BIN)/python tests/bench/approximate.py
	HF_HUB_OFFLINE=1 $(BIN)/python tests/bench/peers.py
endif
