# Linears of many rows: weights decoded slice by slice, multiplied by cuBLASLt.
list(APPEND MINFER_CUDA_SOURCES kernels/gemm/decode.cu kernels/gemm/gemm_context.cpp kernels/gemm/gemm_linear.cpp
  kernels/gemm/glu_columns.cu kernels/gemm/slices.cpp)
list(APPEND MINFER_CUDA_TESTS kernels/gemm/slices_test.cpp)
list(APPEND MINFER_CUDA_DEVICE_TESTS launch/gemm_device_test.cpp)
if(MINFER_BUILD_BENCH)
  add_executable(cuda_gemm_bench ${PROJECT_SOURCE_DIR}/bench/cuda_gemm_bench.cpp)
  target_link_libraries(cuda_gemm_bench PRIVATE minfer_flags minfer_cuda GTest::gtest)
endif()
