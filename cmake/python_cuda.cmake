# The last place where cuda.h is looked for: NVIDIA's wheels beside this Python. `pip install .` brings one.
find_package(Python COMPONENTS Interpreter)
execute_process(COMMAND ${Python_EXECUTABLE} -c "import sys; print(';'.join(p for p in sys.path if p))"
  OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
foreach(folder ${path})
  find_path(RONDO_CUDA_INCLUDE cuda.h PATHS ${folder}/nvidia/cuda_runtime ${folder}/nvidia/cu13 ${folder}/nvidia/cu12
    PATH_SUFFIXES include NO_DEFAULT_PATH)
endforeach()
