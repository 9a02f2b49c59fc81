# Linear products on panels: packing, decode (1 to 8 rows), small batches.
list(APPEND MINFER_CUDA_SOURCES launch/panel.cpp kernels/linear/linear_batch.cpp kernels/linear/linear_decode.cpp
     launch/linear.cpp kernels/linear/pack.cu)
foreach(unit IN ITEMS q4_k q5_k q8_0 q5_1 q4_0 q2_k iq4 mxfp4 bf16 f16 f32)
  list(APPEND MINFER_CUDA_SOURCES kernels/linear/decode_${unit}.cu)
endforeach()
foreach(unit IN ITEMS q4_k q5_k q8_0 q5_1 q4_0)
  list(APPEND MINFER_CUDA_SOURCES kernels/linear/batch_${unit}.cu)
endforeach()
list(APPEND MINFER_CUDA_TESTS launch/linear_batch_test.cpp launch/linear_test.cpp launch/panel_test.cpp kernels/linear/pack_test.cu)
list(APPEND MINFER_CUDA_DEVICE_TESTS kernels/linear/pack_device_test.cu launch/linear_batch_device_test.cpp
     launch/linear_device_test.cpp)
# This one is in a program of C++ sources else.
set_source_files_properties(kernels/linear/pack_test.cu PROPERTIES COMPILE_OPTIONS "--Werror=all-warnings;--expt-relaxed-constexpr")
if(MINFER_BUILD_BENCH)
  add_executable(cuda_linear_bench ${PROJECT_SOURCE_DIR}/bench/cuda_linear_bench.cu)
  target_compile_options(cuda_linear_bench PRIVATE --Werror=all-warnings --expt-relaxed-constexpr)
  target_link_libraries(cuda_linear_bench PRIVATE minfer_flags minfer_cuda)
  add_executable(cuda_batch_bench ${PROJECT_SOURCE_DIR}/bench/cuda_batch_bench.cu)
  target_compile_options(cuda_batch_bench PRIVATE --Werror=all-warnings --expt-relaxed-constexpr)
  target_link_libraries(cuda_batch_bench PRIVATE minfer_flags minfer_cuda)
endif()
