# `make demo` sets up, builds and runs; `make test` builds and tests. Both work on a fresh Debian 12 (root or sudo).
# Everything that they make lies under build/.

.PHONY: demo test test-fast test-python test-asan test-tsan setup setup-python build clean

demo: build
	@tools/demo.sh build/release/tools/rondo/rondo

test: test-fast test-asan test-tsan

setup:
	@tools/setup.sh

build: setup
	@cmake --preset release --log-level=WARNING
	@cmake --build --preset release --target rondo_program

setup-python: setup
	@tools/setup.sh python

with_python = -DRONDO_PYTHON=ON -DPython_EXECUTABLE=$(CURDIR)/build/venv/bin/python

test-fast: setup-python
	@cmake --preset release --log-level=WARNING $(with_python)
	@cmake --build --preset release
	@ctest --preset release

# Of the fast tests those in Python alone.
test-python: setup-python
	@cmake --preset release --log-level=WARNING $(with_python)
	@cmake --build --preset release --target _core
	@ctest --preset release -R '^python$$'

# The sanitised programs are the fast tests; what they generate at run time is not instrumented.
test-asan: setup
	@cmake --preset asan --log-level=WARNING
	@cmake --build --preset asan
	@ctest --preset asan

# Only the rooms that have threads.
tsan_tests = base_test driver_test graph_test replay_test kernel_test device_test batch_test model_test
test-tsan: setup
	@cmake --preset tsan --log-level=WARNING
	@cmake --build --preset tsan --target $(tsan_tests)
	@ctest --preset tsan

clean:
	rm -rf build
