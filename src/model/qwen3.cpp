// The architecture "qwen3": dense Qwen 3. The standard decoder with an RMS norm on every head of q and k.
#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/metadata.hpp"

namespace minfer::model {

const Architecture kQwen3{
    "qwen3",
    [](const gguf::File& file) { return read_decoder_config(file, graph::RopeStyle::halves); },
    [](const Config& config) { return standard_weights(config, false, true); },
    build_standard,
};

}  // namespace minfer::model
