# Attention over the paged cache, and what precedes it: rotation, append, moves.
list(APPEND MINFER_CUDA_SOURCES kernels/attention/attention.cpp kernels/attention/attention_plan.cpp kernels/attention/kv_move.cu
     kernels/attention/rope.cu kernels/attention/simple.cu kernels/attention/split_bf16.cu kernels/attention/split_f16.cu
     kernels/attention/split_q8.cu kernels/attention/tile_bf16.cu kernels/attention/tile_f16.cu kernels/attention/tile_q8.cu)
list(APPEND MINFER_CUDA_TESTS launch/attention_plan_test.cpp)
list(APPEND MINFER_CUDA_DEVICE_TESTS kernels/attention/rope_device_test.cpp launch/attention_device_test.cpp
     launch/rope_attention_device_test.cpp)
if(MINFER_BUILD_BENCH)
  add_executable(cuda_attention_bench ${PROJECT_SOURCE_DIR}/bench/cuda_attention_bench.cu)
  target_link_libraries(cuda_attention_bench PRIVATE minfer_flags minfer_cuda_flags minfer_cuda)
endif()
