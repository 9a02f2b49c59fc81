# Runtime of the CPU device: instruction set, memory.
list(APPEND MINFER_CPU_SOURCES runtime/isa.cpp runtime/memory.cpp)
list(APPEND MINFER_CPU_TESTS runtime/isa_test.cpp runtime/memory_test.cpp)
