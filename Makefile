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

# Packages are installed from the files in locks/, which have the hashes of all their files, so that
# a changed or additional package is refused. One file for each purpose, because pip accepts no hashes
# in constraints. The toolkit and its process pool are installed from this checkout, without other
# packages: what builds them is in locks/, too.
PIP = $(BIN)/python -m pip install -q --disable-pip-version-check
LOCKED = $(PIP) --require-hashes
PROJECT = $(PIP) --no-deps --no-build-isolation -e ./pipepool -e .
# The packages that draw pictures have no wheels for some Pythons: reports have no pictures there.
PICTURES = -r locks/pictures.txt --only-binary vl-convert-python
REQUIREMENTS = locks/setup.txt locks/pictures.txt pyproject.toml pipepool/pyproject.toml
# Each lock, and the files whose packages it has; requirements.lock has those of all, without hashes.
LOCKS = setup pictures dev publish suites corpus browser
setup_FILES = requirements.txt requirements-build.txt
pictures_FILES = requirements-pictures.txt
dev_FILES = $(setup_FILES) $(pictures_FILES) requirements-dev.txt
publish_FILES = requirements-publish.txt
suites_FILES = requirements-suites.txt
corpus_FILES = requirements-corpus.txt
browser_FILES = requirements-browser.txt
COMPILE = $(BIN)/uv pip compile -q --universal --python-version 3.11 --no-header --no-annotate
SITE = docs/_build

.PHONY: setup demo test test-quick test-all test-peers coverage mutants check security format \
	readme docs dist siege suites corpus browser tools lock clean help

help:
	@echo "make setup   set up .venv and siege only"
	@echo "make demo    set up, then measure the 14 rows of the main benchmark (5 minutes)"
	@echo "make suites  set up for every suite: also servers, load tools and nginx"
	@echo "make corpus  set up for the functions that the advice is evaluated on"
	@echo "make browser set up for the tests of reports in a browser"
	@echo "make test    set up, then run the tests (6 minutes); test-quick: only tests without servers"
	@echo "make test-all  set up for every suite, then run the slow tests, too"
	@echo "make test-peers  run the tests of CPython, loky, pebble and anyio on pipepool (10 minutes)"
	@echo "make coverage  run the tests and print the branches without coverage"
	@echo "make mutants   check that the tests detect 300 mutations of the code (1 hour)"
	@echo "make readme  write the generated parts of README and docs/ from the committed records"
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

test-all: .venv/developed .venv/publishing suites corpus browser
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

mutants: .venv/developed
	$(PIP) cosmic-ray -c requirements.lock
	nice $(BIN)/python -m scripts.checks.mutants

check: .venv/developed docs security
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m scripts.pages.readme --check
	$(BIN)/python -m scripts.pages.gil_table --check
	$(BIN)/python -m scripts.pages.executors_table --check
	for page in README.rst CONTRIBUTING.rst SECURITY.rst */README.rst CHANGELOG.rst pipepool/CHANGELOG.rst; do \
	  $(BIN)/python -m docutils --report=1 --halt=2 $$page /dev/null || exit 1; done

# bandit checks the code, and pip-audit the packages in locks/ for known vulnerabilities.
security: .venv/developed .venv/publishing
	$(BIN)/python -m bandit -q -c pyproject.toml -r src pipepool/src servers tasks scripts fabfile.py docs
	$(BIN)/python -m scripts.checks.vulnerabilities

format: .venv/developed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.venv/bin/python:
	@scripts/install/venv $(PYTHON)

.venv/installed: .venv/bin/python $(REQUIREMENTS)
	$(LOCKED) -r locks/setup.txt $(PICTURES) || $(LOCKED) -r locks/setup.txt
	$(PROJECT)
	@touch $@

# One process collects the tests and so compiles all imported modules: otherwise each of the AT_ONCE
# processes would compile them.
.venv/developed: .venv/bin/python $(REQUIREMENTS) locks/dev.txt
	$(LOCKED) --no-compile -r locks/dev.txt --only-binary vl-convert-python
	$(PROJECT)
	@$(PYTEST) --collect-only -qq >/dev/null 2>&1 || true
	@touch .venv/installed $@

.venv/publishing: .venv/installed locks/publish.txt
	$(LOCKED) -r locks/publish.txt
	@touch $@

.venv/suited: .venv/installed locks/suites.txt
	$(LOCKED) -r locks/suites.txt
	@touch $@

.venv/with-corpus: .venv/installed locks/corpus.txt
	$(LOCKED) -r locks/corpus.txt
	@touch $@

.venv/with-browser: .venv/installed locks/browser.txt
	$(LOCKED) -r locks/browser.txt
	@touch $@

suites: .venv/suited siege tools
	$(BIN)/fab build_octopus_db

corpus: .venv/with-corpus

browser: .venv/with-browser
	@scripts/install/browser

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
	$(BIN)/python -m scripts.pages.executors_table -

siege:
	@scripts/install/siege

tools:
	@scripts/install/tools

# Resolve the packages of all purposes together, for all supported Pythons and platforms; then write
# the hashes of all files of these versions. The present versions are kept where they fit:
# `make lock UPGRADE=--upgrade` takes newer ones.
lock: .venv/bin/python
	$(PIP) uv
	$(COMPILE) $(UPGRADE) $(sort $(foreach name,$(LOCKS),$($(name)_FILES))) -o requirements.lock
	$(foreach name,$(LOCKS),$(COMPILE) --generate-hashes --upgrade -c requirements.lock $($(name)_FILES) -o locks/$(name).txt &&) true

clean:
	rm -rf .venv .data dist $(SITE) .mypy_cache .ruff_cache .pytest_cache
