// The composition root: the only file that names the devices. The order is that of preference.
#include "devices.hpp"

#include "cpu/executor/cpu_backend.hpp"
#include "cuda/module/loader.hpp"

namespace minfer {

std::vector<graph::DeviceFactory> device_factories() {
  return {{"cuda", cuda::load_cuda_backend}, {"cpu", cpu::create_cpu_backend}};
}

}  // namespace minfer
