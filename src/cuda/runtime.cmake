# The device itself: capabilities, errors, launches, memory.
list(APPEND MINFER_CUDA_SOURCES runtime/capabilities.cpp runtime/device.cpp runtime/launch.cpp runtime/status.cpp)
list(APPEND MINFER_CUDA_TESTS runtime/capabilities_test.cpp)
string(REPLACE ";" "," minfer_cuda_built_for "${MINFER_CUDA_ARCHITECTURES}")
set_source_files_properties(runtime/device.cpp PROPERTIES COMPILE_DEFINITIONS MINFER_CUDA_BUILT_FOR="${minfer_cuda_built_for}")
