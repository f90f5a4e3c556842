# Two commands matter: `make demo` and `make test`. Both set up what they need, once.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# pip reads these pins for every package it installs, build tools included.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests and benchmarks load torch before clbr, which then comes too late to ask for it: threads that wait, sleep.
export OMP_WAIT_POLICY ?= passive
SUDO   := $(shell [ "$$(id -u)" = 0 ] || echo sudo -n)

.PHONY: demo test test-slow lint browser format docs benchmarks clean

demo: $(READY)
	@$(BIN)/clbr demo

test: lint browser
	$(BIN)/pytest -n 2 --dist loadfile

# The page is tested in a real browser: Debian's, where there is apt. Elsewhere those tests say that they are skipped.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || ! command -v apt-get >/dev/null || { \
	  echo "installing chromium, for the tests of the page (once)"; \
	  $(SUDO) apt-get update -qq && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; } \
	  || echo "chromium could not be installed: the tests of the page are skipped"

test-slow: $(READY)
	$(BIN)/pytest -m slow

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)
	$(BIN)/python docs/build_cli.py
	$(BIN)/python docs/build_api.py site

benchmarks: $(READY)
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || [ $$? = 2 ] || exit 1; done  # 2: it needs arguments

# Made anew only when the pins or the package's own needs change.
$(READY): constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "clbr needs Python 3.11 or newer: make PYTHON=python3.11 ..."; exit 1; }
	@echo "setting up $(VENV) (once, about a minute)"
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "no venv module: apt-get install python3-venv, then again"; exit 1; }
	@$(BIN)/python -m pip install --quiet --editable '.[ann,plot,ray,report,serve,sweep,test]'
	@touch $@

clean:
	rm -rf $(VENV) site .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
