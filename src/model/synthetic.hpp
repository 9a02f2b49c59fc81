// Models of random weights in the shapes and quantization mixes of published ones: speed needs true shapes and formats,
// not trained values. The weights are finite and small. One row of the shape table adds a shape, one of the mix table a
// mix.
#pragma once

#include <string>
#include <string_view>

namespace minfer::model {

// Writes a GGUF file for "SHAPE:MIX", such as "qwen3-0.6b:q4_k_m". It has no vocabulary. Errors: invalid_input, listing
// the known shapes and mixes; io.
void write_synthetic(std::string_view shape_and_mix, const std::string& path);

}  // namespace minfer::model
