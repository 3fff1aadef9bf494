# rondo/cuda_compat.h compiled: on the machine's headers (compat), on declarations of CUDA 12.0 and 12.8 that the tests
# bring (compat_12_0, compat_12_8), as C++11, and by nvcc where there is one. And CUDA run-time code (<<<>>>) with
# Rondo's handles, which runs where there is a GPU (mix).
function(rondo_compat_test name)
  add_executable(${name}_test tests/compat_test.cpp tests/compat_cxx11.cpp tests/compat_includes.cpp)
  set_source_files_properties(tests/compat_cxx11.cpp PROPERTIES COMPILE_OPTIONS "-std=c++11")
  set_source_files_properties(tests/compat_includes.cpp PROPERTIES COMPILE_OPTIONS "-std=c++11;-Wpedantic;-Werror")
  target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR}/include ${ARGN})
  target_link_libraries(${name}_test PRIVATE GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name}_test)
endfunction()

rondo_compat_test(compat)
target_include_directories(compat_test SYSTEM PRIVATE ${RONDO_CUDA_INCLUDE})
foreach(minor 0 8)
  rondo_compat_test(compat_12_${minor} ${CMAKE_SOURCE_DIR}/tests/compat_12)
  target_compile_definitions(compat_12_${minor}_test PRIVATE COMPAT_12 CUDART_VERSION=120${minor}0 CUDA_VERSION=120${minor}0)
endforeach()

find_program(RONDO_NVCC nvcc HINTS ${RONDO_CUDA_INCLUDE}/../bin)
find_library(RONDO_CUDART cudart_static HINTS ${RONDO_CUDA_INCLUDE}/../lib64 ${RONDO_CUDA_INCLUDE}/../lib)
if(RONDO_NVCC AND RONDO_CUDART AND NOT RONDO_SANITIZE AND NOT RONDO_FUZZ)
  # Not CMake's CUDA language, which would make the toolkit a condition of every build.
  function(rondo_nvcc source object)
    add_custom_command(OUTPUT ${object}
      COMMAND ${RONDO_NVCC} -std=c++20 -arch=sm_90 -ccbin ${CMAKE_CXX_COMPILER} -Xcompiler=-fPIC,-Wall,-Wextra
        -I${CMAKE_SOURCE_DIR}/include ${ARGN} -MD -MF ${object}.d -c ${CMAKE_SOURCE_DIR}/${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d VERBATIM COMMENT "nvcc ${source}")
  endfunction()
  rondo_nvcc(tests/compat_forms.cu ${CMAKE_BINARY_DIR}/compat_forms.o)
  rondo_nvcc(tests/compat_forms.cu ${CMAKE_BINARY_DIR}/compat_forms_per_thread.o --default-stream per-thread)
  rondo_nvcc(tests/mix_cuda.cu ${CMAKE_BINARY_DIR}/mix_cuda.o)
  # To be compiled is the test.
  add_custom_target(compat_nvcc ALL DEPENDS ${CMAKE_BINARY_DIR}/compat_forms.o ${CMAKE_BINARY_DIR}/compat_forms_per_thread.o)
  add_executable(mix_test tests/mix_test.cpp ${CMAKE_BINARY_DIR}/mix_cuda.o)
  target_include_directories(mix_test SYSTEM PRIVATE ${RONDO_CUDA_INCLUDE})
  target_link_libraries(mix_test PRIVATE rondo_graph ${RONDO_CUDART} rt GTest::gtest GTest::gtest_main)
  add_test(NAME mix COMMAND mix_test)
else()
  message(STATUS "mix_test (nvcc, <<<>>> with Rondo's handles) is not built: it needs nvcc and libcudart_static, and no sanitizer")
endif()
