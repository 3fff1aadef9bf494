# Benchmarks of replay regions, which need a GPU to run: cmake --build <dir> --target bench_replay_overhead, and where nvcc
# is bench_replay_regions and bench_replay_discovery. Linked as bench_graph_overhead is, to run elsewhere: cuBLAS and cuDNN
# are found at run time (bench/library_loader.h), libcudart is in the binary. cuDNN is tried only where its header is.
add_executable(bench_replay_overhead EXCLUDE_FROM_ALL bench/replay_overhead.cpp)
target_link_libraries(bench_replay_overhead PRIVATE rondo_replay nlohmann_json::nlohmann_json)
target_link_options(bench_replay_overhead PRIVATE -static-libstdc++ -static-libgcc)

find_program(RONDO_NVCC nvcc HINTS ${RONDO_CUDA_INCLUDE}/../bin)
find_library(RONDO_CUDART cudart_static HINTS ${RONDO_CUDA_INCLUDE}/../lib64 ${RONDO_CUDA_INCLUDE}/../lib)
if(RONDO_NVCC AND RONDO_CUDART AND EXISTS ${RONDO_CUDA_INCLUDE}/cublasLt.h AND NOT RONDO_SANITIZE AND NOT RONDO_FUZZ)
  foreach(name replay_regions replay_discovery)
    set(object ${CMAKE_BINARY_DIR}/bench_${name}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${RONDO_NVCC} -std=c++20 -O2 -arch=sm_90 -ccbin ${CMAKE_CXX_COMPILER} -Xcompiler=-fPIC,-Wall,-Wextra
        -I${CMAKE_SOURCE_DIR}/include -MD -MF ${object}.d -c ${CMAKE_SOURCE_DIR}/bench/${name}.cu -o ${object}
      DEPENDS bench/${name}.cu DEPFILE ${object}.d VERBATIM COMMENT "nvcc bench/${name}.cu")
    add_executable(bench_${name} EXCLUDE_FROM_ALL ${object})
    set_target_properties(bench_${name} PROPERTIES LINKER_LANGUAGE CXX)
    target_link_libraries(bench_${name} PRIVATE rondo_replay ${RONDO_CUDART} rt)
    target_link_options(bench_${name} PRIVATE -static-libstdc++ -static-libgcc)
  endforeach()
else()
  message(STATUS "bench_replay_regions and bench_replay_discovery cannot be built: they need nvcc, libcudart_static and cublasLt.h, and no sanitizer")
endif()
