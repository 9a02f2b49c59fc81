// The architecture "mistral3": Ministral 3 and Mistral Small 3 (text). llama with YaRN whose magnitude a multiplier
// takes back, and with a temperature: q grows with the logarithm of the position by whole lengths of the original
// context. The temperature is a factor of q's cosines and sines, so every element of a head must be rotated.
#include "base/error.hpp"
#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/metadata.hpp"

namespace minfer::model {
namespace {

Config read_config(const gguf::File& file) {
  const ArchMetadata meta(file);
  Config config = read_decoder_config(file, graph::RopeStyle::pairs);
  read_window(file, 0, config);
  config.attention_temperature = meta.find_positive("attention.temperature_scale").value_or(0.0F);
  if (config.attention_temperature == 0) return config;
  const std::string key = meta.key("attention.temperature_scale");
  if (config.rope.original_context == 0) {
    fail(ErrorCode::invalid_input, "{}: {} is {} without RoPE's scaling yarn, whose original context is its length",
         file.metadata().source(), key, config.attention_temperature);
  }
  if (config.rope.dims != config.key_size) {
    fail(ErrorCode::unsupported, "{}: {} is {} where only {} of a head's {} elements are rotated; all must be",
         file.metadata().source(), key, config.attention_temperature, config.rope.dims, config.key_size);
  }
  return config;
}

}  // namespace

const Architecture kMistral3{"mistral3", read_config,
                             [](const Config& config) { return standard_weights(config, false, false); },
                             build_standard};

}  // namespace minfer::model
