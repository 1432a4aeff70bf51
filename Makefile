# `make setup` installs everything needed on a bare Debian or Ubuntu; `make demo` and `make test`
# include it.
PYTHON ?= python3
BIN = .venv/bin

# Servers and commands start often: always write .pyc files, also if the environment disables them.
export PYTHONDONTWRITEBYTECODE =

PYTEST = $(BIN)/python -m pytest
# Tests mostly wait: run more processes than a small machine has cores. worksteal keeps tests that
# share a server in one process, until another process is idle.
# A failed test is retried once; the report contains both the failure and the retry.
AT_ONCE = 5
PARALLEL = -n $(AT_ONCE) --dist worksteal --reruns 1 -rR
# The order of the tests is random. `make test SEED=123` repeats the order that printed this seed.
SEED ?= random
ORDER = --order-seed=$(SEED)
# Tests that measure time run alone; a failed one is retried once, and -rR reports it. Only the files
# that have such tests are imported.
TIMING_FILES = $(shell grep -rl "mark.timing" --include=test_*.py tests pipepool/tests)
TIMING = -m timing --reruns 1 -rR

# Packages are installed by uv, only in the versions and with the hashes of requirements.lock: a changed
# or additional package is refused. The words are extras and groups of pyproject.toml.
PACKAGES = $(BIN)/python scripts/install/packages.py
LOCKED = requirements.lock pyproject.toml pipepool/pyproject.toml scripts/install/packages.py
SITE = docs/_build

.PHONY: setup demo test test-quick test-all test-peers coverage mutants check security format \
	readme docs dist siege suites lab browser tools lock clean help check-venv

help:
	@echo "make setup   set up .venv and siege only"
	@echo "make demo    set up, then measure the 14 rows of the main benchmark (5 minutes)"
	@echo "make suites  set up for every suite: also servers, load tools and nginx"
	@echo "make lab     set up for the laboratory: the functions that the advice is evaluated on"
	@echo "make browser set up for the tests of reports in a browser"
	@echo "make test    set up, then run the tests (6 minutes); test-quick: only tests without servers"
	@echo "make test-all  set up for every suite, then run the slow tests, too"
	@echo "make test-peers  run the tests of CPython and eight other pools on pipepool"
	@echo "make coverage  run the tests and print the branches without coverage"
	@echo "make mutants   check that the tests detect 300 mutations of the code (1 hour)"
	@echo "make readme  write the generated parts of README, docs/ and lab/ from the committed records"
	@echo "make check   set up, then check format, lint, types, security, README and docs/"
	@echo "make docs    set up, then write the site of docs/ to $(SITE)"
	@echo "make dist    set up, then build the wheels and sdists of both packages in dist/"

setup: .venv/installed siege
	@echo "set up: next, run $(BIN)/fab doctor, then $(BIN)/fab advise:docs.shop:quote"

demo: .venv/installed siege
	$(BIN)/fab quick

test: .venv/developed siege
	$(PYTEST) $(PARALLEL) $(ORDER) -m "not timing"
	$(PYTEST) $(TIMING) $(ORDER) $(TIMING_FILES)

test-quick: .venv/developed
	$(PYTEST) $(PARALLEL) $(ORDER) -m "unit and not slow"

test-all: .venv/developed suites lab browser
	$(PYTEST) --all $(PARALLEL) $(ORDER) -m "not timing"
	$(PYTEST) --all $(TIMING) $(ORDER) $(TIMING_FILES)

# The tests are downloaded. Each test starts processes: do not run more tests at once than cores.
test-peers: .venv/developed
	$(PYTEST) --all -n 2 --dist worksteal tests/peers

# Branch coverage in all processes, including servers, workers and commands.
coverage: .venv/developed siege
	rm -f .coverage .coverage.*
	-$(BIN)/coverage run -m pytest $(PARALLEL) -m "not timing" $(COVERED)
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

mutants: .venv/with-lab
	nice $(BIN)/python -m lab mutants

check: .venv/developed docs security
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m scripts.pages.readme --check
	$(BIN)/python -m scripts.pages.gil_table --check
	$(BIN)/python -m scripts.pages.executors_table --check
	for page in README.rst CONTRIBUTING.rst SECURITY.rst */README.rst lab/*.rst CHANGELOG.rst pipepool/CHANGELOG.rst; do \
	  $(BIN)/python -m docutils --report=1 --halt=2 $$page /dev/null || exit 1; done

# bandit checks the code, and pip-audit the packages of the lock for known vulnerabilities.
security: .venv/developed
	$(BIN)/python -m bandit -q -c pyproject.toml -r src pipepool/src servers tasks lab scripts fabfile.py docs
	$(BIN)/python -m scripts.checks.vulnerabilities

format: .venv/developed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.venv/bin/python:
	@scripts/install/venv $(PYTHON)

# Each time, but nothing is repeated because of it: it is an order-only prerequisite.
check-venv: .venv/bin/python
	@scripts/install/venv --check

.venv/installed: .venv/bin/python $(LOCKED) | check-venv
	@$(PACKAGES) who
	@touch $@

# Compile here: otherwise each of the AT_ONCE processes would compile what it imports.
.venv/developed: .venv/bin/python $(LOCKED) | check-venv
	@$(PACKAGES) dev who
	@$(BIN)/python -m compileall -q src pipepool/src servers tasks
	@touch .venv/installed $@

.venv/suited: .venv/installed
	@$(PACKAGES) suites cluster
	@touch $@

.venv/with-lab: .venv/developed
	@$(PACKAGES) lab
	@touch $@

.venv/with-browser: .venv/installed
	@$(PACKAGES) browser
	@touch $@

suites: .venv/suited siege tools
	$(BIN)/fab build_octopus_db

lab: .venv/with-lab

browser: .venv/with-browser
	@scripts/install/browser

docs: .venv/developed
	$(BIN)/python -m sphinx -q -W --keep-going docs $(SITE)

# Build each wheel from its sdist: this fails if the sdist is incomplete.
dist: .venv/developed
	rm -rf dist
	for package in . pipepool; do $(BIN)/python -m build --outdir dist $$package || exit 1; done
	$(BIN)/python -m twine check --strict dist/*

readme: .venv/developed
	$(BIN)/python -m scripts.pages.readme
	$(BIN)/python -m scripts.pages.gil_table -
	$(BIN)/python -m scripts.pages.executors_table -

siege:
	@scripts/install/siege

tools:
	@scripts/install/tools

# Resolve the packages of all extras and groups together, for all supported Pythons and platforms. The
# present versions are kept where they fit: `make lock UPGRADE=--upgrade` takes newer ones.
lock: .venv/bin/python
	$(PACKAGES) --lock $(UPGRADE)

clean:
	rm -rf .venv .data dist $(SITE) .mypy_cache .ruff_cache .pytest_cache
