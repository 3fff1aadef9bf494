# The test of an installed copy: installs this build into a fresh prefix, copies the examples out of the tree, builds
# them there with find_package(rondo) as a stranger would, and runs them and the installed program.
#   cmake -DBUILD=... -DSOURCE=... -DWORK=... -DCXX=... -DGENERATOR=... -DCUDA_INCLUDE=folder of cuda.h
#     [-DFAKE=libcuda.so of the fake driver] -P run.cmake
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nfailed (${status}):\n${output}")
  endif()
  message("${output}")
endfunction()

# An example that needs a GPU: right, or skipped with its reason.
function(run_or_skip)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0 AND NOT status EQUAL 77)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nfailed (${status}):\n${output}")
  endif()
  message("${output}")
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
file(COPY ${SOURCE}/examples DESTINATION ${WORK}/outside)
set(as_a_stranger -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=${WORK}/prefix)

run(${CMAKE_COMMAND} -S ${WORK}/outside/examples/01_treelstm_cpp -B ${WORK}/build ${as_a_stranger})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/treelstm ${WORK}/outside/examples/models/treelstm.rondo)
run(${WORK}/prefix/bin/rondo check ${WORK}/outside/examples/models/treelstm.rondo)

# CUDA graphs. What nvcc compiles is built where nvcc is, and runs where a GPU is.
run(${CMAKE_COMMAND} -S ${WORK}/outside/examples -B ${WORK}/graphs ${as_a_stranger} -DCUDA_INCLUDE=${CUDA_INCLUDE})
run(${CMAKE_COMMAND} --build ${WORK}/graphs --parallel)
file(GLOB sources RELATIVE ${SOURCE}/examples ${SOURCE}/examples/*.cpp ${SOURCE}/examples/*.cu)
foreach(source ${sources})
  cmake_path(GET source STEM name)
  if(source MATCHES "[.]cpp$" OR EXISTS ${WORK}/graphs/${name})
    run_or_skip(${WORK}/graphs/${name})
  endif()
  if(source MATCHES "[.]cpp$" AND FAKE)
    run(${CMAKE_COMMAND} -E env RONDO_LIBCUDA=${FAKE} ${WORK}/graphs/${name})
  endif()
endforeach()
