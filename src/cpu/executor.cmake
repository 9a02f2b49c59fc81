# The executor: the seam's implementation.
list(APPEND MINFER_CPU_SOURCES executor/cpu_backend.cpp executor/executable.cpp executor/kv_store.cpp
     executor/op_table.cpp executor/ops_attention.cpp executor/ops_experts.cpp executor/ops_linear.cpp executor/ops_rows.cpp executor/weights.cpp
     runtime/topology.cpp)
list(APPEND MINFER_CPU_TESTS executor/executable_test.cpp executor/kv_store_test.cpp executor/weights_test.cpp)
