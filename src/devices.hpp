// The devices that this build knows, for the registry. See devices.cpp.
#pragma once

#include <vector>

#include "graph/registry.hpp"

namespace minfer {

std::vector<graph::DeviceFactory> device_factories();

}  // namespace minfer
