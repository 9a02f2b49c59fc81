// The architecture "qwen3moe": Qwen 3 of experts. qwen3's attention; each token goes to a few experts, weighed by a
// softmax over all of them and brought to a sum of 1.
#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/metadata.hpp"

namespace minfer::model {

const Architecture kQwen3Moe{
    "qwen3moe",
    [](const gguf::File& file) {
      Config config = read_decoder_config(file, graph::RopeStyle::halves);
      read_experts(file, false, config);
      config.normalised_routes = true;
      return config;
    },
    [](const Config& config) { return standard_weights(config, false, true); },
    build_standard,
};

}  // namespace minfer::model
