# Linear products on panels: packing, decode (1 to 8 rows).
list(APPEND MINFER_CUDA_SOURCES launch/panel.cpp kernels/linear/pack.cu)
list(APPEND MINFER_CUDA_TESTS launch/panel_test.cpp kernels/linear/pack_test.cu)
list(APPEND MINFER_CUDA_DEVICE_TESTS kernels/linear/pack_device_test.cu)
# This one is in a program of C++ sources else.
set_source_files_properties(kernels/linear/pack_test.cu PROPERTIES COMPILE_OPTIONS "--Werror=all-warnings;--expt-relaxed-constexpr")
