# Mixtures of experts: routing, and products by way of the linear family.
list(APPEND MINFER_CPU_SOURCES launch/experts.cpp)
list(APPEND MINFER_CPU_TESTS launch/experts_test.cpp)
