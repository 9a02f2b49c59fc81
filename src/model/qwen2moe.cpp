// The architecture "qwen2moe": Qwen 1.5 and 2 of experts. qwen2's attention; each token goes to a few experts, weighed
// by a softmax over all of them as it is, and to a shared one with a gate of its own.
#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/metadata.hpp"

namespace minfer::model {

const Architecture kQwen2Moe{
    "qwen2moe",
    [](const gguf::File& file) {
      Config config = read_decoder_config(file, graph::RopeStyle::halves);
      read_experts(file, true, config);
      return config;
    },
    [](const Config& config) { return standard_weights(config, true, false); },
    build_standard,
};

}  // namespace minfer::model
