// The architecture "gemma". The standard decoder with the embedding scaled by sqrt(width) and the activation tanh-GELU;
// the conversion stores norm weights with their +1 included. Source: the Gemma report (arXiv 2403.08295).
#include "model/gemma.hpp"

#include <cmath>

#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/metadata.hpp"

namespace minfer::model {

Config read_gemma_config(const gguf::File& file, int64_t layers_of_27b) {
  Config config = read_decoder_config(file, graph::RopeStyle::halves);
  config.activation = graph::Activation::gelu_tanh;
  config.embedding_scale = std::sqrt(static_cast<float>(config.width));
  if (config.layers == layers_of_27b) {
    config.attention_scale = 1.0F / std::sqrt(static_cast<float>(config.width) / static_cast<float>(config.heads));
  }
  return config;
}

const Architecture kGemma{
    "gemma",
    [](const gguf::File& file) { return read_gemma_config(file, 0); },
    [](const Config& config) { return standard_weights(config, false, false); },
    build_standard,
};

}  // namespace minfer::model
