# The entry points. Each target sets up what it needs in .venv and requires only Python 3.11 or newer,
# git and make; a second call finds its setup done and starts at once.
#
# Written for GNU make 3.81 (the version of macOS) and a POSIX shell.

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
# An installation depends on these files: when one changes, the next target installs again.
INSTALLED_FROM := pyproject.toml constraints.txt src/bowsaw/_version.py
# Our files are UTF-8, also where a console uses another encoding.
export PYTHONUTF8 := 1
# Keep bytecode even where the environment disables it: the demo and the tests start many commands,
# and each would compile every module again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test test-all browser compilers lint style types imports format bench reproduce docs faults fuzz clean
.NOTPARALLEL:
# An interrupted set-up must not look like a finished one.
.DELETE_ON_ERROR:

help: ## show this list
	@echo "Targets:"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-16s %s\n", $$1, $$2 }'

demo: $(VENV)/.demo-is-installed ## handwritten digits to a recogniser of 50 words and its page; 2 minutes on 2 cores, once installed
	@$(RUN) examples/demo.py

test: lint ## lint, then the tests of every feature; at most 4 minutes
	@echo "pytest"
	@$(RUN) -m pytest -q -n auto --dist worksteal -m "not slow" $(PYTEST_ARGS)

test-all: $(VENV)/.dev-is-installed ## the rest: real images, browser, cluster, fuzzing, documents, kill tests
	@$(RUN) -m pytest -q -n auto --dist worksteal -m slow --durations=25 $(PYTEST_ARGS)

browser: $(VENV)/pyvenv.cfg ## find a Chromium for the browser tests, or install one with apt
	@$(RUN) tests/browser/chromium.py

compilers: $(VENV)/pyvenv.cfg ## find compilers and emulators of ARM for the tests of C headers, or install them with apt
	@$(RUN) tests/formats/cross_compilers.py

lint: style types imports ## check style, types and the layers of the packages

style: $(VENV)/.dev-is-installed ## ruff: rules and layout
	@echo "ruff check"
	@$(RUN) -m ruff check --quiet --output-format=concise .
	@echo "ruff format --check"
	@$(RUN) -m ruff format --check --quiet .

types: $(VENV)/.dev-is-installed ## mypy, strict
	@echo "mypy"
	@$(RUN) -m mypy --no-error-summary

imports: $(VENV)/.dev-is-installed ## import-linter: a package imports only the layers below it
	@echo "lint-imports"
	@$(BIN)/lint-imports --no-logo

format: $(VENV)/.dev-is-installed ## format the code and fix what ruff can fix
	@$(RUN) -m ruff check --fix --quiet .
	@$(RUN) -m ruff format .

bench: $(VENV)/.dev-is-installed ## measure against peers and write benchmarks/RESULTS.md
	@$(RUN) -m benchmarks

reproduce: $(VENV)/.dev-is-installed ## the paper's study: make reproduce SCENE15=dir CALTECH101=dir [OUTPUT=dir]; resumable
	@$(RUN) -m reproduction $(if $(SCENE15),--scene15 "$(SCENE15)") $(if $(CALTECH101),--caltech101 "$(CALTECH101)") \
	  -o "$(or $(OUTPUT),build/reproduction)" $(REPRODUCE_ARGS)

docs: $(VENV)/.dev-is-installed ## build the documentation site in build/site; a warning is an error
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict -d build/site
	@echo "build/site/index.html"

faults: $(VENV)/.dev-is-installed ## every command × every fault: kills, signals, full disks, second writers
	@BOWSAW_FAULTS=all $(RUN) -m pytest -q -n auto --dist worksteal tests/faults $(PYTEST_ARGS)

fuzz: $(VENV)/.dev-is-installed ## 100,000 mutated inputs per reader; resumable, takes hours
	@$(RUN) -m tests.fuzz --all --inputs 100000 --folder build/fuzz

clean: ## remove everything that make created, .venv included
	rm -rf $(VENV) demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks examples reproduction docs -name __pycache__ -type d -prune -exec rm -rf {} +

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
	@echo "Installing bowsaw (once)"
	@$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.dev-is-installed: $(VENV)/pyvenv.cfg $(INSTALLED_FROM)
	@echo "Installing bowsaw and what its tests, checks and benchmarks need (once)"
	@$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[test,lint,bench]"
	@touch $(VENV)/.demo-is-installed $@
