# The verbs of the project. Each sets up what it needs, from Python ≥ 3.11, pip and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PROJECTS := pyproject.toml tests/requirements.txt $(wildcard dsh_plugins/*/pyproject.toml)

.PHONY: bench help setup demo test check format docs wheels pluggy16 live fuzz crash clean
.DEFAULT_GOAL := help

help: ## List the verbs
	@grep -E '^[a-z0-9]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## Make the environment in .venv

$(STAMP): $(PROJECTS)
	@$(PYTHON) -c 'import sys; sys.exit("dsh needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo 'On Debian: apt-get install python3-venv'; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r tests/requirements.txt
	@touch $@

demo: $(STAMP) ## Let an agent find and fix a bug
	@$(BIN)/python examples/demo.py

test: $(STAMP) ## Run all tests
	@$(BIN)/python -m pytest -n auto

check: $(STAMP) ## Lint, types, layers and docs
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py tests/test_repository.py tests/test_docs.py

format: $(STAMP) ## Format the code and write the generated docs
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/python docs/generate.py

docs: $(STAMP) ## Write the generated docs
	$(BIN)/python docs/generate.py

wheels: $(STAMP) ## Build every distribution, install each alone and drive it
	$(BIN)/python tests/wheels.py

pluggy16: $(STAMP) ## Run the hook tests on the oldest supported pluggy
	$(BIN)/python tests/oldest_pluggy.py

crash: $(STAMP) ## Kill dsh 200 times for each store and see that its sessions survive
	CRASH_KILLS=200 $(BIN)/python -m pytest -n auto dsh_plugins/persistence/tests/test_crash.py

live: $(STAMP) ## Drive dsh against a small real model; compiles llama.cpp once
	@$(BIN)/python tests/live.py

BENCH := BENCH_VENVS=$(CURDIR)/.bench-venvs
BENCHED := dsh,floor_socket,floor_httpx,floor_httpx2,floor_asyncio,pydantic_ai,openai_agents,langchain_agent

bench: $(STAMP) ## Measure dsh beside floors and three peers; writes docs/performance.md (half an hour)
	@test -d .bench-venvs/dsh || $(BENCH) $(BIN)/python bench/run.py --setup --only $(BENCHED)
	$(BENCH) $(BIN)/python bench/run.py --fresh --only $(BENCHED) --page docs/performance.md

fuzz: $(STAMP) ## Run 4,000 random shell scripts and judge them
	DSH_FUZZ_SCRIPTS=4000 DSH_FUZZ_SEED=$$(date +%s) $(BIN)/python -m pytest -n auto dsh_plugins/permission/tests/test_fuzz.py

clean: ## Remove the environment and what was built
	rm -rf $(VENV) build dist .make
