# To start: `make demo`, `make test`. Both set up and use .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 2
TIDY ?=
FUZZ_SECONDS ?= 60
FUZZ ?=
COVERAGE_TESTS ?= tests
ASAN_TESTS ?= tests/native tests/codecs tests/formats
# Tests run in parallel, one file per core. By itself, pytest-xdist begins with the files of the most tests, and ends with few long ones.
PARALLEL := -n $(JOBS) --dist loadfile --no-loadscope-reorder
# Folders whose tests compute, the longest first, so that no core waits long at the end. Those of the others (endpoints, jobs, worker processes)
# mostly wait.
COMPUTING := $(addprefix tests/,io writing cli examples formats codecs docs datasets sources benchmarks native adapters contracts sampling)
NATIVE := $(shell find native -name '*.[ch]pp' -o -name CMakeLists.txt) CMakeLists.txt pyproject.toml
CPP := $(shell find native -name '*.[ch]pp')
# Silence pip's notice about its own version.
PIP := $(BIN)/python -m pip --disable-pip-version-check
export PATH := $(abspath $(BIN)):$(PATH)

.PHONY: demo test test-waiting test-sweeps test-ray test-library check lint tidy format stubs cpp-test test-asan-python tsan coverage fuzz bench bench-peers docs wheel clean setup

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Build tools are in .venv too (no isolation), so that a rebuild compiles only what changed.
$(VENV)/.tools: | $(BIN)/python
	$(PIP) install -q -c constraints-test.txt scikit-build-core nanobind cmake ninja
	@touch $@

# An editable install: Python edits need no rebuild, native ones invalidate this stamp.
$(VENV)/.installed: $(NATIVE) $(VENV)/.tools
	$(PIP) install -q -c constraints-test.txt --no-build-isolation -e ".[demo]"
	@touch $@

$(VENV)/.test: $(VENV)/.installed constraints-test.txt
	$(PIP) install -q -c constraints-test.txt torch==2.13.0 torchdata==0.11.0
	$(PIP) install -q -c constraints-test.txt --no-build-isolation -e ".[test,dev,jax]"
	@touch $@

setup: $(VENV)/.test

demo: $(VENV)/.installed
	$(BIN)/headrace demo

# Folders whose tests decode Zstandard, GZIP, JPEG, PNG or Parquet: `make test` also runs them with the libraries alone, except files whose tests choose
# their decoders.
DECODING := $(addprefix tests/,codecs/images formats/array_record formats/tfrecord formats/recordio formats/parquet io/cache \
	io/test_engines.py)
DECODING += $(addprefix --ignore=tests/,codecs/images/test_claims.py codecs/images/test_png_checks.py io/cache/test_parallel_inflater.py \
	formats/parquet/test_native_columns.py formats/parquet/test_native_damage.py)

# Tests that wait leave cores idle, so the linters, clang-tidy and the C++ tests run beside them, the last two at a low priority. `make check`
# also runs clang's analyzer, which takes four fifths of clang-tidy's time.
test: $(VENV)/.test
	$(MAKE) --no-print-directory -j 4 lint test-waiting tidy cpp-test TIDY=--quick
	$(BIN)/python -m pytest -q -m "not peer and not ray" $(PARALLEL) $(COMPUTING)
	HEADRACE_ENGINES=library $(BIN)/python -m pytest -q -m "not peer and not ray" $(PARALLEL) $(DECODING)

test-waiting: $(VENV)/.test
	$(BIN)/python -m pytest -q -m "not peer and not ray" $(PARALLEL) $(addprefix --ignore=,$(COMPUTING))

# Every case of the sweeps of which `make test` takes some (each byte changed, each call that fails), and twice as many examples of each property.
test-sweeps: $(VENV)/.test
	HEADRACE_SWEEPS=all $(BIN)/python -m pytest -q -m "not peer and not ray" $(PARALLEL) $$(grep -rlE "some_of|^@given" tests --include=test_*.py)

# Tests on Ray, in an environment of their own, which is large. Clusters of several nodes on this machine: not side by side.
RAY_VENV := .venv-ray
RAY_PIP := $(RAY_VENV)/bin/python -m pip --disable-pip-version-check
RAY_TESTS ?= tests

$(RAY_VENV)/.test: $(NATIVE) constraints-test.txt
	$(PYTHON) -m venv $(RAY_VENV)
	$(RAY_PIP) install -q -c constraints-test.txt scikit-build-core nanobind cmake ninja torch==2.13.0
	PATH="$(abspath $(RAY_VENV)/bin):$$PATH" $(RAY_PIP) install -q -c constraints-test.txt --no-build-isolation -e ".[test,ray]"
	@touch $@

test-ray: $(RAY_VENV)/.test
	PATH="$(abspath $(RAY_VENV)/bin):$$PATH" $(RAY_VENV)/bin/python -m pytest -q -m ray $(RAY_TESTS)

# The whole suite of Python tests with none of our own decoders.
test-library: $(VENV)/.test
	HEADRACE_ENGINES=library $(BIN)/python -m pytest -q -m "not peer and not ray" $(PARALLEL) $(COMPUTING)
	HEADRACE_ENGINES=library $(BIN)/python -m pytest -q -m "not peer and not ray" $(PARALLEL) $(addprefix --ignore=,$(COMPUTING))

check: lint tidy

lint: $(VENV)/.test
	$(BIN)/ruff check src tests benchmarks examples tools
	$(BIN)/ruff format --check src tests benchmarks examples tools
	@echo clang-format; $(BIN)/clang-format --dry-run --Werror $(CPP)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/stubs.py --check

tidy: $(VENV)/.test
	nice $(BIN)/python tools/tidy.py $(TIDY)

format: $(VENV)/.test
	$(BIN)/ruff check --fix src tests benchmarks examples tools
	$(BIN)/ruff format src tests benchmarks examples tools
	$(BIN)/clang-format -i $(CPP)

stubs: $(VENV)/.test
	$(BIN)/python tools/stubs.py

# Under AddressSanitizer and UndefinedBehaviorSanitizer, on every change; `cmake --preset dev` builds the same tests without.
cpp-test:
	cmake --preset asan
	nice cmake --build --preset asan -j $(JOBS)
	nice ctest --preset asan -j $(JOBS)

# Python tests with a module built under the sanitizers, without leak checks, since Python itself never frees some memory.
# A fault ends the process and is described in build/asan-python/report.*.
test-asan-python: $(VENV)/.test
	cmake --preset asan-python
	cmake --build --preset asan-python -j $(JOBS)
	PYTHONPATH=tools/native_override HEADRACE_NATIVE=$$(ls $(CURDIR)/build/asan-python/native/_native.*) \
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:handle_sigbus=0:log_path=$(CURDIR)/build/asan-python/report \
	UBSAN_OPTIONS=print_stacktrace=1:log_path=$(CURDIR)/build/asan-python/report \
	$(BIN)/python -m pytest -q -m "not peer and not ray" -o faulthandler_timeout=0 $(ASAN_TESTS)

# Coverage of C++ (gcov) and Python (coverage.py), including child processes. COVERAGE_TESTS="tests/formats tests/codecs" selects tests.
coverage: export COVERAGE_FILE := $(CURDIR)/build/coverage/python
coverage: $(VENV)/.test
	cmake --preset coverage
	cmake --build --preset coverage -j $(JOBS)
	find build/coverage -name '*.gcda' -delete
	rm -f build/coverage/python*
	ctest --preset coverage
	PYTHONPATH=tools/native_override HEADRACE_NATIVE=$$(ls $(CURDIR)/build/coverage/native/_native.*) \
	$(BIN)/python -m coverage run -m pytest -q -m "not peer and not ray" $(COVERAGE_TESTS)
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage json -q
	$(BIN)/python tools/coverage_summary.py

tsan:
	cmake --preset tsan
	cmake --build --preset tsan -j $(JOBS)
	ctest --preset tsan

# FUZZ_SECONDS for each harness; FUZZ="fuzz_jpeg fuzz_png" for some of them.
fuzz:
	cmake --preset fuzz
	cmake --build --preset fuzz -j $(JOBS)
	nice tools/fuzz.sh $(FUZZ_SECONDS) $(FUZZ)

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks.micro
	$(BIN)/python -m benchmarks.flows

bench-peers:
	benchmarks/compare/setup_peers.sh
	.venv-peers/bin/python -m benchmarks.compare
	.venv-peers/bin/python -m benchmarks.shapes

docs: $(VENV)/.test
	$(BIN)/python -m pytest -q tests/docs

wheel: | $(BIN)/python
	$(PIP) wheel . --no-deps -w dist

clean:
	rm -rf build dist $(VENV) $(RAY_VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
