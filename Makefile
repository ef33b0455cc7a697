# Everything a newcomer types. Each target sets up what it needs in .venv and asks for nothing but
# Python 3.11 or newer, git and make; a second call finds its work done and starts at once.
#
# Written for GNU make 3.81 (the one that macOS ships) and a plain POSIX shell.

# make PYTHON=/path/to/python3 chooses the Python that .venv is made with.
PYTHON ?=
# make PYTEST_ARGS="-k store -x" passes options on.
PYTEST_ARGS ?=

VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
RUN := $(BIN)/python
# What an installation depends on: when one of these changes, the next target installs again.
INSTALLED_FROM := pyproject.toml constraints.txt src/bowsaw/_version.py
# Our files are UTF-8, whatever the console of a Windows machine believes.
export PYTHONUTF8 := 1
# Bytecode is kept beside the kernels' cache even where a machine is told not to: the demo and the
# tests start a hundred commands, and each would compile every module again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test browser lint style types rooms format bench docs fuzz clean
.NOTPARALLEL:
# An interrupted set-up must not look like a finished one.
.DELETE_ON_ERROR:

help: ## show this list
	@echo "Targets:"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-14s %s\n", $$1, $$2 }'

demo: $(VENV)/.demo-is-installed ## real pictures to a pruned codebook and a page about it, in two minutes
	@$(RUN) examples/demo.py

test: lint ## lint, then run every test and every example in the documentation
	@echo "pytest"
	@$(RUN) -m pytest -q -n auto --durations=25 $(PYTEST_ARGS)

browser: $(VENV)/pyvenv.cfg ## find a Chromium for the tests of the page, or install one with apt
	@$(RUN) tests/browser/chromium.py

lint: style types rooms ## check style, types and the order of the rooms

style: $(VENV)/.dev-is-installed ## ruff: rules and layout
	@echo "ruff check"
	@$(RUN) -m ruff check --quiet --output-format=concise .
	@echo "ruff format --check"
	@$(RUN) -m ruff format --check --quiet .

types: $(VENV)/.dev-is-installed ## mypy, strict
	@echo "mypy"
	@$(RUN) -m mypy --no-error-summary

rooms: $(VENV)/.dev-is-installed ## import-linter: a room uses only the rooms below it
	@echo "lint-imports"
	@$(BIN)/lint-imports --no-logo

format: $(VENV)/.dev-is-installed ## put the code into shape
	@$(RUN) -m ruff check --fix --quiet .
	@$(RUN) -m ruff format .

bench: $(VENV)/.dev-is-installed ## measure against peers and write benchmarks/RESULTS.md
	@$(RUN) -m benchmarks

docs: $(VENV)/.dev-is-installed ## build the documentation site in build/site; a warning is an error
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict -d build/site
	@echo "build/site/index.html"

fuzz: $(VENV)/.dev-is-installed ## a hundred thousand mutated inputs for every reader; resumable
	@$(RUN) -m tests.fuzz --all --inputs 100000 --folder build/fuzz

clean: ## remove everything that make has made, .venv included
	rm -rf $(VENV) demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks examples docs -name __pycache__ -type d -prune -exec rm -rf {} +

# -- set-up ----------------------------------------------------------------------------------------

$(VENV)/pyvenv.cfg:
	@if [ -n "$(PYTHON)" ]; then set -- "$(PYTHON)"; \
	else set -- python3.13 python3.12 python3.11 python3 python; fi; \
	for python do \
	  if "$$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    echo "Making $(VENV) with $$("$$python" --version)"; \
	    exec "$$python" -m venv $(VENV); \
	  fi; \
	done; \
	echo "No Python 3.11 or newer with venv among: $$*. Install one, or name it: make PYTHON=/path/to/python3" >&2; \
	exit 1

$(VENV)/.demo-is-installed: $(VENV)/pyvenv.cfg $(INSTALLED_FROM)
	@echo "Installing bowsaw and what the demo needs (once)"
	@$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[demo]"
	@touch $@

$(VENV)/.dev-is-installed: $(VENV)/pyvenv.cfg $(INSTALLED_FROM)
	@echo "Installing bowsaw and what its tests, checks and benchmarks need (once)"
	@$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[demo,test,lint,bench]"
	@touch $(VENV)/.demo-is-installed $@
