# Measurement of the machine's limits, for `minfer bench`.
list(APPEND MINFER_CPU_SOURCES launch/limits.cpp kernels/scalar/limits.cpp)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  list(APPEND MINFER_CPU_SOURCES kernels/avx2/limits.cpp kernels/avxvnni/limits.cpp kernels/avx512/limits.cpp kernels/amx/limits.cpp)
  set_source_files_properties(kernels/avx2/limits.cpp PROPERTIES COMPILE_OPTIONS "${MINFER_AVX2_FLAGS}")
  set_source_files_properties(kernels/avxvnni/limits.cpp PROPERTIES COMPILE_OPTIONS "${MINFER_AVXVNNI_FLAGS}")
  set_source_files_properties(kernels/amx/limits.cpp PROPERTIES COMPILE_OPTIONS "${MINFER_AMX_FLAGS}")
  set_source_files_properties(kernels/avx512/limits.cpp PROPERTIES COMPILE_OPTIONS "${MINFER_AVX512_FLAGS}")
endif()
