// The architecture "llama": Llama 1 to 3, SmolLM2 and others of the standard pre-norm decoder. RoPE rotates
// neighbouring pairs (the conversion permutes q and k for it); llama3's frequency scaling comes as the tensor
// rope_freqs.weight. Mistral's files are of it too: where they have a sliding window, it is that of every layer.
#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/metadata.hpp"

namespace minfer::model {

const Architecture kLlama{
    "llama",
    [](const gguf::File& file) {
      Config config = read_decoder_config(file, graph::RopeStyle::pairs);
      read_window(file, 0, config);
      return config;
    },
    [](const Config& config) { return standard_weights(config, false, false); },
    build_standard,
};

}  // namespace minfer::model
