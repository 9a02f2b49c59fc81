// Decode launches made ready for kernels that share the decode family's device code. See launch/linear_decode.hpp.
#pragma once

#include "cuda/kernels/linear/decode_params.hpp"

namespace minfer::cuda {

// A launch's plan, and its parameters but for the segments and what a pass changes. shape.types[t]: of the panels of
// segments of type t. Errors: unsupported, for a row of activations that is too wide.
DecodeLaunch prepare_decode(const Queue& queue, const DecodeShape& shape, ActivationFormat format,
                            const InputNorm& norm, const DecodeTuning& tuning);

}  // namespace minfer::cuda
