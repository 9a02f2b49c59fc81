# Linear products: panels of weights, and kernels for each instruction set.
list(APPEND MINFER_CPU_SOURCES launch/linear.cpp launch/panel.cpp launch/panel_types.cpp kernels/scalar/linear.cpp)
list(APPEND MINFER_CPU_TESTS launch/linear_test.cpp launch/panel_test.cpp)
set(MINFER_LINEAR_AVX2 kernels/avx2/linear_32.cpp kernels/avx2/linear_k.cpp kernels/avx2/linear_plain.cpp)
set(MINFER_LINEAR_AVX512 kernels/avx512/linear_32.cpp kernels/avx512/linear_bf16.cpp kernels/avx512/linear_k.cpp
    kernels/avx512/linear_plain.cpp)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND MINFER_CPU_SOURCES ${MINFER_LINEAR_AVX2} ${MINFER_LINEAR_AVX512})
  # g++ 12 takes the undefined vectors of its own intrinsics for uninitialized ones.
  set(MINFER_LINEAR_QUIET $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  set_source_files_properties(${MINFER_LINEAR_AVX2} PROPERTIES COMPILE_OPTIONS "${MINFER_AVX2_FLAGS};-O3;${MINFER_LINEAR_QUIET}")
  set_source_files_properties(${MINFER_LINEAR_AVX512} PROPERTIES COMPILE_OPTIONS "${MINFER_AVX512_FLAGS};-O3;${MINFER_LINEAR_QUIET}")
endif()
if(MINFER_BUILD_BENCH)
  add_executable(linear_bench ${PROJECT_SOURCE_DIR}/bench/linear_bench.cpp)
  target_link_libraries(linear_bench PRIVATE minfer_flags minfer_cpu)
  target_compile_options(linear_bench PRIVATE ${MINFER_LINEAR_QUIET})
endif()
