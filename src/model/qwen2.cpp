// The architecture "qwen2": Qwen 2 and 2.5. The standard decoder with biases on q, k and v.
#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/metadata.hpp"

namespace minfer::model {

const Architecture kQwen2{
    "qwen2",
    [](const gguf::File& file) { return read_decoder_config(file, graph::RopeStyle::halves); },
    [](const Config& config) { return standard_weights(config, true, false); },
    build_standard,
};

}  // namespace minfer::model
