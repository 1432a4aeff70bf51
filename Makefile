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
# A run with more skips than these fails. After `make setup` alone 441 and 13 tests lack a package.
MOST_SKIPS = 475
MOST_SKIPS_TIMING = 20
# Tests that measure time run alone; a failed one is retried once, and -rR reports it. Only the files
# that have such tests are imported.
TIMING_FILES = $(shell grep -rl "mark.timing" --include=test_*.py tests pipepool/tests)
TIMING = -m timing --reruns 1 -rR

# The toolkit and its process pool, both from this checkout. The packages that draw pictures have no
# wheels for some Pythons: reports contain no pictures there.
PROJECT = -e ./pipepool -e .
PICTURES = -r requirements-pictures.txt --only-binary vl-convert-python
REQUIREMENTS = requirements.txt requirements-pictures.txt requirements.lock pyproject.toml \
	pipepool/pyproject.toml
SITE = docs/_build

.PHONY: setup demo test test-quick test-all test-peers coverage mutants check format readme docs \
	dist siege suites corpus tools lock clean help

help:
	@echo "make setup   set up .venv and siege only"
	@echo "make demo    set up, then measure the 14 rows of the main benchmark (5 minutes)"
	@echo "make suites  set up for every suite: also servers, load tools and nginx"
	@echo "make corpus  set up for the functions that the advice is evaluated on"
	@echo "make test    set up, then run the tests (6 minutes); test-quick: only tests without servers"
	@echo "make test-all  set up for every suite, then run the slow tests, too"
	@echo "make test-peers  run the tests of CPython, loky, pebble and anyio on pipepool (10 minutes)"
	@echo "make coverage  run the tests and print the branches without coverage"
	@echo "make mutants   check that the tests detect 300 mutations of the code (1 hour)"
	@echo "make readme  write the generated parts of README and docs/ from the committed records"
	@echo "make check   set up, then check format, lint, types, README and docs/"
	@echo "make docs    set up, then write the site of docs/ to $(SITE)"
	@echo "make dist    set up, then build the wheels and sdists of both packages in dist/"

setup: .venv/installed siege

demo: .venv/installed siege
	$(BIN)/fab quick

test: .venv/developed siege
	$(PYTEST) $(PARALLEL) -m "not timing" --most-skips=$(MOST_SKIPS)
	$(PYTEST) $(TIMING) $(TIMING_FILES) --most-skips=$(MOST_SKIPS_TIMING)

test-quick: .venv/developed
	$(PYTEST) $(PARALLEL) -m "unit and not slow"

test-all: .venv/developed .venv/publishing suites corpus
	$(PYTEST) --all $(PARALLEL) -m "not timing"
	$(PYTEST) --all $(TIMING) $(TIMING_FILES)

# The tests are downloaded. Each test starts processes: do not run more tests at once than cores.
test-peers: .venv/developed
	$(PYTEST) --all -n 2 --dist worksteal tests/peers

# Branch coverage in all processes, including servers, workers and commands.
coverage: .venv/developed siege
	rm -f .coverage .coverage.*
	-$(BIN)/coverage run -m pytest $(PARALLEL) -m "not timing" $(COVERED)
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

mutants: .venv/developed
	$(BIN)/python -m pip install -q --disable-pip-version-check cosmic-ray -c requirements.lock
	nice $(BIN)/python -m scripts.checks.mutants

check: .venv/developed docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m scripts.pages.readme --check
	$(BIN)/python -m scripts.pages.gil_table --check
	$(BIN)/python -m scripts.pages.executors_table --check
	for page in README.rst CONTRIBUTING.rst SECURITY.rst */README.rst CHANGELOG.rst pipepool/CHANGELOG.rst; do \
	  $(BIN)/python -m docutils --report=1 --halt=2 $$page /dev/null || exit 1; done

format: .venv/developed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.venv/bin/python:
	@scripts/install/venv $(PYTHON)

.venv/installed: .venv/bin/python $(REQUIREMENTS)
	$(BIN)/python -m pip install -q --disable-pip-version-check $(PROJECT) $(PICTURES) -c requirements.lock \
	|| $(BIN)/python -m pip install -q --disable-pip-version-check $(PROJECT) -c requirements.lock
	@touch $@

# One pip call for everything: two calls take 12 s longer. Then one process collects the tests and
# so compiles all imported modules: otherwise each of the AT_ONCE processes would compile them.
.venv/developed: .venv/bin/python $(REQUIREMENTS) requirements-dev.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-compile $(PROJECT) $(PICTURES) -r requirements-dev.txt -c requirements.lock
	@$(PYTEST) --collect-only -qq >/dev/null 2>&1 || true
	@touch .venv/installed $@

.venv/publishing: .venv/installed requirements-publish.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements-publish.txt -c requirements.lock
	@touch $@

.venv/suited: .venv/installed requirements-suites.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements-suites.txt -c requirements.lock
	@touch $@

.venv/with-corpus: .venv/installed requirements-corpus.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements-corpus.txt -c requirements.lock
	@touch $@

suites: .venv/suited siege tools
	$(BIN)/fab build_octopus_db

corpus: .venv/with-corpus

docs: .venv/publishing
	$(BIN)/python -m sphinx -q -W --keep-going docs $(SITE)

# Build each wheel from its sdist: this fails if the sdist is incomplete.
dist: .venv/publishing
	rm -rf dist
	for package in . pipepool; do $(BIN)/python -m build --outdir dist $$package || exit 1; done
	$(BIN)/python -m twine check --strict dist/*

readme: .venv/developed
	$(BIN)/python -m scripts.pages.readme
	$(BIN)/python -m scripts.pages.gil_table -

siege:
	@scripts/install/siege

tools:
	@scripts/install/tools

lock: .venv/developed .venv/publishing .venv/suited .venv/with-corpus
	$(BIN)/python -m pip freeze --exclude-editable > requirements.lock

clean:
	rm -rf .venv .data dist $(SITE) .mypy_cache .ruff_cache .pytest_cache
