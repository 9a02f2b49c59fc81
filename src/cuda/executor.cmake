# The seam's implementation on a card.
list(APPEND MINFER_CUDA_SOURCES executor/cuda_backend.cpp executor/executable.cpp executor/kv_store.cpp kernels/limits/measure.cpp executor/op_table.cpp
     executor/ops.cpp executor/ops_experts.cpp executor/weights.cpp)
list(APPEND MINFER_CUDA_SOURCES kernels/limits/limits.cu)
list(APPEND MINFER_CUDA_TESTS executor/op_table_test.cpp)
