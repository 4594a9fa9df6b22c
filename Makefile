# Everything that a developer does, each command complete in itself: it sets up what it needs first.
# Needs Python 3.11 or later and Java 17 or later, nothing else. `make help` lists the commands.
.DEFAULT_GOAL := help
.PHONY: help setup jars test test-all check proof mutants conformance soak programs chaos versions release \
	release-check lint docs docs-version format demo bench lock clean

PY := .venv/bin/python
# tests that stand together stay together, and a process that has none left takes some of another's
PYTEST = $(PY) -m pytest -n $(JOBS) --dist worksteal
# another Python for .venv: make setup PYTHON=python3.12
export PYTHON
# make test ARGS="tests/engine/joins"
ARGS ?=
# make test JOBS=2: as many test processes, each with its own Spark where it needs one; 0: none beside pytest's own
JOBS ?= auto
# make soak HISTORIES=1000000 SEED=7: as many random histories of a seed
HISTORIES ?= 10000
PROGRAMS ?= 20000
SEED ?= 1
WORKERS ?= 2
# make conformance RUNNER=engine: the engine without Spark; oracle and spark-functions: see docs/conformance.md
RUNNER ?= spark
# make chaos KILLS=200 SEED=7: so many kills of running queries, of the same seed
KILLS ?= 1000
# make release REPOSITORY=https://host/owner/watersmeet: where it is published
REPOSITORY ?=
# make docs-version VERSION=0.1 ALIAS=latest: under which name, and whether the site opens with it
VERSION ?=
ALIAS ?=
# make lock UPGRADE=1: to the newest versions that pyproject.toml allows
UPGRADE ?=

help: ## these lines
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

setup: ## .venv and .jars; quick when they are up to date
	@sh dev/setup.sh

jars: ## all jars, those of the benchmark too
	@sh dev/setup.sh --all-jars

test: setup ## tests of every kind, in about twenty minutes; ARGS="tests/engine/joins" for some, JOBS=1 for one process
	@$(PYTEST) $(ARGS)

test-all: setup ## all tests, the long ones of tests/long.txt too; ARGS="-m long" for these alone
	@$(PYTEST) --long $(ARGS)

check: lint docs demo test-all ## what has to hold before anything is merged

proof: setup ## all that is proved, for hours (docs/proof.md): tests with their long parts, conformance, soak, chaos
	@$(PYTEST) --long --proof
	@$(MAKE) conformance
	@$(MAKE) soak HISTORIES=50000
	@$(MAKE) programs
	@$(MAKE) chaos

mutants: setup ## every pitfall put into the engine, one at a time: the net must tear (docs/mutants.md)
	@$(PYTEST) --long --proof tests/mutants $(ARGS)

conformance: setup ## every recording of Kafka Streams through Spark, a quarter of an hour; RUNNER=engine: without
	@$(PY) -m proof.conformance --runner $(RUNNER) $(ARGS) \
		tests/recordings/vectors/* tests/recordings/histories/*

soak: setup ## random histories, engine against oracle; HISTORIES=1000000 SEED=1 WORKERS=2, resumes after a stop
	@$(PY) -m proof.histories --count $(HISTORIES) --seed $(SEED) --workers $(WORKERS) \
		--resume .soak-$(SEED).json $(ARGS)

programs: jars ## random topologies, oracle and engine beside the real Kafka Streams; PROGRAMS=20000 SEED=1
	@$(PY) -m proof.histories --kafka-streams --count $(PROGRAMS) --seed $(SEED) $(ARGS)

chaos: setup ## kills running queries, Kafka to Kafka, and judges what came out; KILLS=1000 SEED=1 WORKERS=2, resumes
	@$(PY) -m chaos --kills $(KILLS) --seed $(SEED) --workers $(WORKERS) $(ARGS)

versions: setup ## the other versions of Python and PySpark that are claimed, each in an environment of its own
	@$(PY) dev/versions.py $(ARGS)

release: setup ## sdist and wheel of the last commit into dist/, built twice; REPOSITORY=https://... for their URLs
	@$(PY) dev/release/build.py $(if $(REPOSITORY),--repository $(REPOSITORY)) $(ARGS)

release-check: setup ## the wheel in dist/ in empty environments of each Python and PySpark; ARGS="--python 3.11" for one
	@$(PY) dev/release/check.py $(ARGS)

lint: setup ## style, format and types
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

docs: setup ## the docs site, strictly, into .site: open .site/index.html
	@$(PY) dev/docs/fetch_pyodide.py
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

docs-version: docs ## the site beside those of other versions, on the branch gh-pages: VERSION=0.1 ALIAS=latest
	@PATH="$(CURDIR)/.venv/bin:$$PATH" sh dev/docs/version.sh "$(VERSION)" "$(ALIAS)"

format: setup ## puts style and format right where a program can
	@$(PY) -m ruff check --fix-only .
	@$(PY) -m ruff format .

demo: setup ## the demo on real flights, from files; KAFKA=1: through a real broker; LIVE=1: with a page to watch
	@$(PY) demo/flights.py $(if $(KAFKA),--kafka) $(if $(LIVE),--live) $(ARGS)

bench: jars ## the benchmarks
	@$(PY) bench/run.py $(ARGS)

lock: setup ## the lock files anew, after a change of pyproject.toml or dev/ivy.xml
	@sh dev/lock.sh $(if $(UPGRADE),--upgrade)

clean: ## removes what the other commands have made
	rm -rf .venv .versions .release .jars .pyodide .demo .bench .chaos .site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -rf .soak-*.json spark-warehouse metastore_db derby.log src/watersmeet.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
