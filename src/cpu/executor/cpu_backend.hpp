// The CPU as a device: the one entry of this room for devices.cpp.
#pragma once

#include <memory>

#include "graph/backend.hpp"

namespace minfer::cpu {

// Errors: invalid_input for a thread count out of range or an unknown instruction set; unsupported for one that this
// machine lacks.
std::unique_ptr<graph::Backend> create_cpu_backend(const graph::BackendOptions& options);

}  // namespace minfer::cpu
