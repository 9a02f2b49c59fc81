// Finds the CUDA device at start: libminfer-cuda.so beside the program or in ../lib/minfer. One minfer thus runs with
// and without a card, and without the CUDA libraries. The module is loaded only where the driver lists a card. Apart
// from the rest of the room, so that it is built everywhere.
#pragma once

#include <memory>

#include "graph/backend.hpp"

namespace minfer::cuda {

// Errors: device where the module is absent, can't be loaded, is of another build, or finds no driver or card;
// unsupported where the card is too old, or the module has no code for it. The message is the reason.
std::unique_ptr<graph::Backend> load_cuda_backend(const graph::BackendOptions& options);

}  // namespace minfer::cuda
