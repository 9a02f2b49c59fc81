// What the operating system says of this machine's processors and memory. Read from /proc and /sys at the call.
#pragma once

#include <string>

#include "graph/backend.hpp"

namespace minfer::cpu {

// Physical cores that this process may run on (two hardware threads of a core count once); at least 1.
int usable_cores();
// The processor's name, "unknown processor" where the system does not say.
std::string processor_name();
// Total and available bytes, a container's limit included.
graph::DeviceMemory host_memory();

}  // namespace minfer::cpu
