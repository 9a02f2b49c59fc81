// The architecture "smollm3". llama without RoPE in every fourth layer.
#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/metadata.hpp"

namespace minfer::model {

const Architecture kSmolLm3{
    "smollm3",
    [](const gguf::File& file) {
      constexpr int64_t kNoRopePeriod = 4;
      Config config = read_decoder_config(file, graph::RopeStyle::pairs);
      config.no_rope_period = kNoRopePeriod;
      return config;
    },
    [](const Config& config) { return standard_weights(config, false, false); },
    build_standard,
};

}  // namespace minfer::model
