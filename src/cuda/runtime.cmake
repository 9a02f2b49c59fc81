# The device itself: capabilities, errors, launches, memory.
list(APPEND MINFER_CUDA_SOURCES runtime/capabilities.cpp runtime/device.cpp runtime/launch.cpp runtime/status.cpp)
list(APPEND MINFER_CUDA_TESTS runtime/capabilities_test.cpp)
