# The sampler: drawing the next tokens from logits on the card.
list(APPEND MINFER_CUDA_SOURCES kernels/sampling/choose.cu kernels/sampling/stage.cu kernels/sampling/tiles.cu
     kernels/sampling/top.cu)
list(APPEND MINFER_CUDA_DEVICE_TESTS launch/sampling_device_test.cpp launch/sampling_top_device_test.cpp
     launch/stage_device_test.cpp)
if(MINFER_BUILD_BENCH)
  add_executable(cuda_sampling_bench ${PROJECT_SOURCE_DIR}/bench/cuda_sampling_bench.cu)
  target_link_libraries(cuda_sampling_bench PRIVATE minfer_flags minfer_cuda_flags minfer_cuda)
endif()
