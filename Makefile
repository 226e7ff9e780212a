# Everything a newcomer needs: `make demo`, `make test`. Both make and use .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 2
FUZZ_SECONDS ?= 600
# Tests that do not mind the clock: every core takes files of them. Those of endpoints, jobs and worker processes have the machine to themselves.
SIDE_BY_SIDE := $(addprefix tests/,benchmarks cli codecs datasets docs examples formats io native sources writing)
NATIVE := $(shell find native -name '*.[ch]pp' -o -name CMakeLists.txt) CMakeLists.txt pyproject.toml
# Keep pip quiet about itself, and let a plain `pip install` of torch find a CPU build where one is offered.
PIP := $(BIN)/python -m pip --disable-pip-version-check
export PATH := $(abspath $(BIN)):$(PATH)

.PHONY: demo test check format stubs cpp-test tsan fuzz bench bench-peers docs wheel clean setup

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The tools of the build lie in .venv too (no isolation), so that a rebuild compiles only what changed.
$(VENV)/.tools: | $(BIN)/python
	$(PIP) install -q -c constraints-test.txt scikit-build-core nanobind cmake ninja
	@touch $@

# The extension is built into an editable install: Python edits need no rebuild, native ones make this stamp stale.
$(VENV)/.installed: $(NATIVE) $(VENV)/.tools
	$(PIP) install -q -c constraints-test.txt --no-build-isolation -e ".[demo]"
	@touch $@

$(VENV)/.test: $(VENV)/.installed constraints-test.txt
	$(PIP) install -q -c constraints-test.txt torch==2.13.0 torchdata==0.11.0
	$(PIP) install -q -c constraints-test.txt --no-build-isolation -e ".[test,dev,jax]"
	@touch $@

setup: $(VENV)/.test

demo: $(VENV)/.installed
	$(BIN)/penstock demo

test: $(VENV)/.test check cpp-test
	$(BIN)/python -m pytest -q -m "not peer" -n $(JOBS) --dist loadfile $(SIDE_BY_SIDE)
	$(BIN)/python -m pytest -q -m "not peer" $(addprefix --ignore=,$(SIDE_BY_SIDE))

check: $(VENV)/.test
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/stubs.py --check

format: $(VENV)/.test
	$(BIN)/ruff check --fix src tests benchmarks examples
	$(BIN)/ruff format src tests benchmarks examples

stubs: $(VENV)/.test
	$(BIN)/python tools/stubs.py

cpp-test:
	cmake --preset dev
	cmake --build --preset dev -j $(JOBS)
	ctest --preset dev

tsan:
	cmake --preset tsan
	cmake --build --preset tsan -j $(JOBS)
	ctest --preset tsan

fuzz:
	cmake --preset fuzz
	cmake --build --preset fuzz -j $(JOBS)
	tools/fuzz.sh $(FUZZ_SECONDS)

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks.micro
	$(BIN)/python -m benchmarks.flows

bench-peers:
	benchmarks/compare/setup_peers.sh
	.venv-peers/bin/python -m benchmarks.compare

docs: $(VENV)/.test
	$(BIN)/python -m pytest -q tests/docs

wheel: | $(BIN)/python
	$(PIP) wheel . --no-deps -w dist

clean:
	rm -rf build dist $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
