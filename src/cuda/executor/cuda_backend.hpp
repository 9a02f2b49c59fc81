// The Backend of a CUDA card. See graph/backend.hpp.
#pragma once

#include <memory>

#include "graph/backend.hpp"

namespace minfer::cuda {

// Errors: device where there is no driver or card; unsupported where the card is too old, or this build has no
// code for it.
std::unique_ptr<graph::Backend> create_cuda_backend(const graph::BackendOptions& options);

}  // namespace minfer::cuda
