# `make demo` sets up, builds and runs; `make test` builds and tests. Both work on a fresh Debian 12 (root or sudo).
# Everything that they make lies under build/.

.PHONY: demo test test-fast test-asan test-tsan setup build clean

demo: build
	@tools/demo.sh build/release/tools/rondo/rondo

test: test-fast test-asan test-tsan

setup:
	@tools/setup.sh

build: setup
	@cmake --preset release --log-level=WARNING
	@cmake --build --preset release --target rondo_program

test-fast: setup
	@cmake --preset release --log-level=WARNING
	@cmake --build --preset release
	@ctest --preset release

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
