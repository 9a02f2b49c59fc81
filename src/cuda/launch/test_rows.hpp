// Rows of floats for tests' calls of launchers. Tests only.
#pragma once

#include "cuda/launch/activation.hpp"

namespace minfer::cuda {

inline Rows f32_rows(float* data, int64_t rows, int64_t width) {
  return {ActivationFormat::f32, reinterpret_cast<std::byte*>(data), rows, width};
}

}  // namespace minfer::cuda
