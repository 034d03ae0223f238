# Two commands on a machine with Python 3.11+, git and make:
#   make ladder   set everything up and walk the road, live on this machine
#   make test     set everything up and run what CI runs
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: setup run-setup ladder test lint types contracts check-all bench clean

setup:
	@$(PYTHON) tools/bootstrap.py $(VENV) --dev

run-setup:
	@$(PYTHON) tools/bootstrap.py $(VENV)

ladder: run-setup
	$(BIN)/foretrace ladder --out traces/ladder --force

test: setup lint types contracts
	$(BIN)/python -m pytest -n 2 --dist loadgroup

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: setup
	$(BIN)/mypy

contracts: setup
	$(BIN)/lint-imports

bench: setup
	$(BIN)/python bench/read_speed.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
