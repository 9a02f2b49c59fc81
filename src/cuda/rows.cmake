# Ops on rows: norms, conversions, gated activations, copies, angles, embeddings.
list(APPEND MINFER_CUDA_SOURCES kernels/common/require.cpp kernels/rows/elementwise.cu kernels/rows/embed.cu
  kernels/rows/layer_norm.cu
  kernels/rows/rms_norm.cu
  kernels/rows/rope_angles.cu)
list(APPEND MINFER_CUDA_DEVICE_TESTS launch/rows_device_test.cpp)
