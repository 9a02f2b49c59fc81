# Row operations: norms, 8-bit activations, elementwise, rope, embedding, argmax. A vector source gets the flags of its
# instruction set and nothing else does.
list(APPEND MINFER_CPU_SOURCES launch/rows.cpp launch/rope.cpp launch/embedding.cpp kernels/scalar/rows.cpp)
list(APPEND MINFER_CPU_TESTS launch/rows_test.cpp launch/rope_test.cpp launch/embedding_test.cpp)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  list(APPEND MINFER_CPU_SOURCES kernels/avx2/rows.cpp kernels/avx512/rows.cpp)
  list(APPEND MINFER_CPU_TESTS kernels/vector_math_test.cpp kernels/avx2/vector_math_probe.cpp
       kernels/avx512/vector_math_probe.cpp)
  set_source_files_properties(kernels/avx2/rows.cpp kernels/avx2/vector_math_probe.cpp
                              PROPERTIES COMPILE_OPTIONS "${MINFER_AVX2_FLAGS}")
  set(avx512_options ${MINFER_AVX512_FLAGS})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC's own AVX-512 header passes a value that it leaves undefined on purpose (GCC bug 105593).
    list(APPEND avx512_options -Wno-maybe-uninitialized)
  endif()
  set_source_files_properties(kernels/avx512/rows.cpp kernels/avx512/vector_math_probe.cpp
                              PROPERTIES COMPILE_OPTIONS "${avx512_options}")
endif()
