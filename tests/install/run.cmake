# The test of an installed copy: installs this build into a fresh prefix, copies an example out of the tree, builds it
# there with find_package(rondo) as a stranger would, and runs it and the installed program.
#   cmake -DBUILD=... -DSOURCE=... -DWORK=... -DCXX=... -DGENERATOR=... -P run.cmake
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nfailed (${status}):\n${output}")
  endif()
  message("${output}")
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
file(COPY ${SOURCE}/examples/01_treelstm_cpp ${SOURCE}/examples/models DESTINATION ${WORK}/outside)
run(${CMAKE_COMMAND} -S ${WORK}/outside/01_treelstm_cpp -B ${WORK}/build -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${CXX}
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/treelstm ${WORK}/outside/models/treelstm.rondo)
run(${WORK}/prefix/bin/rondo check ${WORK}/outside/models/treelstm.rondo)
