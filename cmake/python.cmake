# The Python module rondo._core (python/rondo/_core.cpp), by nanobind. In a build tree the package is at
# <build>/python, for PYTHONPATH; pip takes the module from here and the rest from python/rondo (pyproject.toml).
if(NOT RONDO_PYTHON MATCHES "^(ON|ONLY)$")
  message(FATAL_ERROR "RONDO_PYTHON is ${RONDO_PYTHON}: expected OFF, ON or ONLY")
endif()
find_package(Python 3.11 COMPONENTS Interpreter Development.Module OPTIONAL_COMPONENTS Development.SABIModule)
if(NOT Python_Interpreter_FOUND OR NOT Python_Development.Module_FOUND)
  message(FATAL_ERROR "The Python module needs Python 3.11 or newer with its headers: apt-get install python3-dev, "
    "or name another one with -DPython_EXECUTABLE=.")
endif()
if(NOT nanobind_DIR)
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
    OUTPUT_VARIABLE nanobind_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_package(nanobind CONFIG QUIET)
if(NOT nanobind_FOUND)
  message(FATAL_ERROR "The Python module needs nanobind: ${Python_EXECUTABLE} -m pip install nanobind. "
    "(`pip install .` brings its own.)")
endif()

# STABLE_ABI: one module for all of Python 3.12 and newer; on 3.11 it is for 3.11. Nothing of the C++ inside is seen from
# outside.
nanobind_add_module(_core STABLE_ABI NB_STATIC NB_SUPPRESS_WARNINGS NOMINSIZE python/rondo/_core.cpp)
target_link_libraries(_core PRIVATE rondo_c)
target_link_options(_core PRIVATE -Wl,--exclude-libs,ALL)
if(RONDO_PYTHON STREQUAL "ONLY")  # for other machines, whose libstdc++ may be older
  target_link_options(_core PRIVATE -static-libstdc++)
endif()
set_target_properties(_core PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python/rondo)
install(TARGETS _core LIBRARY DESTINATION rondo COMPONENT python EXCLUDE_FROM_ALL)

file(GLOB package RELATIVE ${CMAKE_SOURCE_DIR}/python/rondo CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/rondo/*)
list(FILTER package EXCLUDE REGEX "[.]cpp$|^__pycache__$")
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/python/rondo)
foreach(entry ${package})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/python/rondo/${entry} ${CMAKE_BINARY_DIR}/python/rondo/${entry} SYMBOLIC)
endforeach()

# tests/python, on the fake driver. What needs PyTorch skips itself where there is none.
function(rondo_python_tests)
  add_dependencies(_core fake_libcuda)
  add_test(NAME python WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
    COMMAND ${Python_EXECUTABLE} -B -m pytest -q -rs -p no:cacheprovider tests/python)
  set_tests_properties(python PROPERTIES ENVIRONMENT_MODIFICATION
    "RONDO_LIBCUDA=set:$<TARGET_FILE:fake_libcuda>;PYTHONPATH=path_list_prepend:${CMAKE_BINARY_DIR}/python")
endfunction()
