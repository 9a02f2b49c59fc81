// What the models gemma, gemma2 and gemma3 share beside the pieces of decoder.hpp. Apart because other decoders have
// none of it. Internal to model.
#pragma once

#include <cstdint>

#include "gguf/reader.hpp"
#include "model/config.hpp"

namespace minfer::model {

// A decoder with the embedding scaled by sqrt(width) and the activation tanh-GELU. The model of `layers_of_27b` layers,
// known by its depth (0: there is none), scales scores by the width a head instead of the head size.
Config read_gemma_config(const gguf::File& file, int64_t layers_of_27b);

}  // namespace minfer::model
