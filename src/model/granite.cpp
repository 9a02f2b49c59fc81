// The architecture "granite": Granite 3 (dense). llama with four scales. Those of embedding and attention are the
// config's own, the logits are divided by theirs. What a layer adds is scaled by r: the hidden state is kept divided by
// r, so that the parts are added as they are; a norm takes that back, since x / sqrt(mean(x^2) + eps) is the same for x
// / r with eps / r^2.
#include <cmath>

#include "base/error.hpp"
#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/metadata.hpp"

namespace minfer::model {
namespace {

Config read_config(const gguf::File& file) {
  const ArchMetadata meta(file);
  Config config = read_decoder_config(file, graph::RopeStyle::pairs);
  const float residual = meta.find_positive("residual_scale").value_or(1.0F);
  config.embedding_scale = meta.find_positive("embedding_scale").value_or(1.0F) / residual;
  config.norm_eps /= residual * residual;
  config.attention_scale = meta.find_positive("attention.scale").value_or(config.attention_scale);
  const float divisor = meta.find_positive("logit_scale").value_or(1.0F);
  config.logit_scale = 1.0F / divisor;
  // Each is a finite number above 0, but their quotients may be none.
  for (const float value : {config.embedding_scale, config.norm_eps, config.logit_scale}) {
    if (std::isfinite(value) && value > 0) continue;
    fail(ErrorCode::invalid_input, "{}: {} is {} and {} is {}, which leave {} of a scale; expected numbers near 1",
         file.metadata().source(), meta.key("residual_scale"), residual, meta.key("logit_scale"), divisor, value);
  }
  return config;
}

}  // namespace

const Architecture kGranite{"granite", read_config,
                            [](const Config& config) { return standard_weights(config, false, false); },
                            build_standard};

}  // namespace minfer::model
