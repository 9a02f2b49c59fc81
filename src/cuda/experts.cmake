# Mixtures of experts: routing, products of single entries (the decode family's device code), tiles of many.
list(APPEND MINFER_CUDA_SOURCES kernels/experts/experts.cpp kernels/experts/route.cu)
foreach(unit IN ITEMS q4_k q5_k q8_0 q5_1 q4_0 q2_k iq4 mxfp4 bf16 f16 f32)
  list(APPEND MINFER_CUDA_SOURCES kernels/experts/entry_${unit}.cu)
endforeach()
foreach(unit IN ITEMS q4_k q8_0 q4_0 iq4)
  list(APPEND MINFER_CUDA_SOURCES kernels/experts/tile_${unit}.cu)
endforeach()
list(APPEND MINFER_CUDA_DEVICE_TESTS launch/experts_device_test.cpp)
