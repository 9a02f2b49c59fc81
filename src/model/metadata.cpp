// Common metadata of decoder-only transformers. See metadata.hpp. Key names: ggml's docs/gguf.md.
#include "model/metadata.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.hpp"
#include "model/rope.hpp"
#include "tensor/dtype.hpp"

namespace minfer::model {
namespace {

constexpr std::string_view kFrequencies = "rope_freqs.weight";
constexpr std::string_view kShortFactors = "rope_factors_short.weight";
constexpr std::string_view kLongFactors = "rope_factors_long.weight";

}  // namespace

ArchMetadata::ArchMetadata(const gguf::File& file)
    : metadata_(file.metadata()), architecture_(file.metadata().require_string("general.architecture")) {}

std::optional<int64_t> ArchMetadata::find_count(std::string_view field, int64_t most) const {
  const auto value = metadata_.find_i64(key(field));
  if (value && (*value < 1 || *value > most)) {
    fail(ErrorCode::invalid_input, "{}: {} is {}, expected 1 to {}", metadata_.source(), key(field), *value, most);
  }
  return value;
}

int64_t ArchMetadata::count(std::string_view field, int64_t most) const {
  metadata_.require_i64(key(field));
  return *find_count(field, most);
}

std::optional<float> ArchMetadata::find_positive(std::string_view field) const {
  const auto value = metadata_.find_f32(key(field));
  if (value && !(std::isfinite(*value) && *value > 0)) {
    fail(ErrorCode::invalid_input, "{}: {} is {}, expected a finite number above 0", metadata_.source(), key(field),
         *value);
  }
  return value;
}

std::optional<float> ArchMetadata::find_rope_base(std::string_view field) const {
  const auto value = metadata_.find_f32(key(field));
  if (value && !(std::isfinite(*value) && *value > 1)) {
    fail(ErrorCode::invalid_input, "{}: {} is {}, expected a finite number above 1", metadata_.source(), key(field),
         *value);
  }
  return value;
}

float ArchMetadata::positive(std::string_view field) const {
  metadata_.require_f32(key(field));
  return *find_positive(field);
}

namespace {

// A tensor of divisors, one a rotated pair; empty where the file has none.
std::vector<float> read_divisors(const gguf::File& file, std::string_view name, int64_t pairs) {
  const gguf::TensorInfo* tensor = file.find_tensor(name);
  if (tensor == nullptr) return {};
  if (tensor->dtype != tensor::DType::f32 || tensor->dims != 1 || tensor->shape[0] != pairs) {
    fail(ErrorCode::invalid_input, "{}: tensor {} must be F32 with {} elements", file.metadata().source(), name, pairs);
  }
  std::vector<float> divisors(static_cast<size_t>(pairs));
  tensor::dtype_info(tensor::DType::f32).dequantize(tensor->data, pairs, divisors.data());
  for (const float divisor : divisors) {
    if (!(std::isfinite(divisor) && divisor > 0)) {
      fail(ErrorCode::invalid_input, "{}: tensor {} has {}, expected finite numbers above 0", file.metadata().source(),
           name, divisor);
    }
  }
  return divisors;
}

// Divisors of a short and of a long context in place of llama3's; files of that scaling may lack its type.
void read_long_rope(const gguf::File& file, const ArchMetadata& meta, int64_t context_length, Rope& rope) {
  const std::string& source = file.metadata().source();
  if (!rope.frequency_divisors.empty()) {
    fail(ErrorCode::unsupported, "{}: has both rope_freqs.weight and {}", source, kShortFactors);
  }
  rope.frequency_divisors = read_divisors(file, kShortFactors, rope.dims / 2);
  rope.long_divisors = read_divisors(file, kLongFactors, rope.dims / 2);
  for (const auto& [divisors, name] :
       {std::pair{&rope.frequency_divisors, kShortFactors}, {&rope.long_divisors, kLongFactors}}) {
    if (divisors->empty()) {
      fail(ErrorCode::invalid_input, "{}: tensor {} is missing; RoPE's scaling 'longrope' needs it with {} elements",
           source, name, rope.dims / 2);
    }
  }
  rope.scaling = Rope::Scaling::longrope;
  rope.original_context = meta.find_count("rope.scaling.original_context_length", kMaxContext).value_or(context_length);
  rope.yarn_attention_factor = meta.find_positive("rope.scaling.attn_factor").value_or(1.0F);
}

void read_rope_scaling(const ArchMetadata& meta, int64_t context_length, Rope& rope) {
  const auto type = meta.metadata().find_string(meta.key("rope.scaling.type"));
  // Old files give a linear factor without a type.
  const auto old_factor = meta.find_positive("rope.scale_linear");
  if (!type && old_factor) {
    rope.scaling = Rope::Scaling::linear;
    rope.factor = *old_factor;
  }
  if (!type || *type == "none" || *type == "longrope") return;
  rope.factor = meta.positive("rope.scaling.factor");
  if (*type == "linear") {
    rope.scaling = Rope::Scaling::linear;
  } else if (*type == "yarn") {
    rope.scaling = Rope::Scaling::yarn;
    rope.original_context =
        meta.find_count("rope.scaling.original_context_length", kMaxContext).value_or(context_length);
    rope.yarn_beta_fast = meta.find_positive("rope.scaling.yarn_beta_fast").value_or(32.0F);
    rope.yarn_beta_slow = meta.find_positive("rope.scaling.yarn_beta_slow").value_or(1.0F);
    rope.yarn_log_multiplier = meta.find_positive("rope.scaling.yarn_log_multiplier").value_or(0.0F);
    rope.yarn_attention_factor = meta.find_positive("rope.scaling.attn_factor").value_or(1.0F);
  } else {
    fail(ErrorCode::unsupported, "{}: {} is '{}'; supported are none, linear, yarn and longrope",
         meta.metadata().source(), meta.key("rope.scaling.type"), *type);
  }
}

std::string_view divisors_name(const Rope& rope) {
  if (rope.scaling != Rope::Scaling::longrope) return kFrequencies;
  return rope.frequency_divisors == rope.long_divisors ? kLongFactors : kShortFactors;
}

// The key that gave the factor: that of old files, where it has no type.
std::string factor_key(const ArchMetadata& meta) {
  const bool typed = meta.metadata().find_string(meta.key("rope.scaling.type")).has_value();
  return meta.key(typed ? "rope.scaling.factor" : "rope.scale_linear");
}

// Divisors and factors are above 0, but may be so small that what they divide is no number any more.
void check_frequencies(const ArchMetadata& meta, const Rope& rope) {
  const graph::RopeAnglesAttributes angles = rope_frequencies(rope);
  const auto& frequencies = angles.inverse_frequencies;
  const auto wrong =
      std::find_if(frequencies.begin(), frequencies.end(), [](float frequency) { return !std::isfinite(frequency); });
  if (wrong != frequencies.end()) {
    const auto pair = wrong - frequencies.begin();
    std::string cause;
    const bool has_factor = rope.scaling == Rope::Scaling::linear || rope.scaling == Rope::Scaling::yarn;
    if (has_factor) cause = fmt::format("{} {}", factor_key(meta), rope.factor);
    if (!rope.frequency_divisors.empty()) {
      cause += fmt::format("{}{} in tensor {}", cause.empty() ? "" : " and ",
                           rope.frequency_divisors[static_cast<size_t>(pair)], divisors_name(rope));
    }
    fail(ErrorCode::invalid_input, "{}: {} gives RoPE pair {} the frequency {}, expected a finite one",
         meta.metadata().source(), cause, pair, *wrong);
  }
  if (!(std::isfinite(angles.magnitude) && angles.magnitude > 0)) {
    fail(ErrorCode::invalid_input, "{}: {} is {} and {} is {}: RoPE's magnitude is {}, expected a finite one above 0",
         meta.metadata().source(), meta.key("rope.scaling.attn_factor"), rope.yarn_attention_factor,
         meta.key("rope.scaling.factor"), rope.factor, angles.magnitude);
  }
}

Rope read_rope(const gguf::File& file, const ArchMetadata& meta, const Config& config, graph::RopeStyle style) {
  Rope rope;
  rope.style = style;
  rope.dims = meta.find_count("rope.dimension_count", kMaxHeadSize).value_or(config.key_size);
  if (rope.dims % 2 != 0 || rope.dims > config.key_size) {
    fail(ErrorCode::invalid_input, "{}: {} is {}, expected an even number up to the head size {}",
         meta.metadata().source(), meta.key("rope.dimension_count"), rope.dims, config.key_size);
  }
  rope.base = meta.find_rope_base("rope.freq_base").value_or(10000.0F);
  read_rope_scaling(meta, config.context_length, rope);
  rope.frequency_divisors = read_divisors(file, kFrequencies, rope.dims / 2);
  const bool typed = meta.metadata().find_string(meta.key("rope.scaling.type")) == "longrope";
  const bool has_factors = file.find_tensor(kShortFactors) != nullptr || file.find_tensor(kLongFactors) != nullptr;
  if (typed || has_factors) read_long_rope(file, meta, config.context_length, rope);
  check_frequencies(meta, rope);
  check_frequencies(meta, rope.for_context(kMaxContext));
  return rope;
}

int64_t read_vocabulary(const ArchMetadata& meta) {
  if (const auto tokens = meta.metadata().find_strings("tokenizer.ggml.tokens")) {
    if (tokens->size() < 1 || tokens->size() > static_cast<size_t>(kMaxVocabulary)) {
      fail(ErrorCode::invalid_input, "{}: tokenizer.ggml.tokens has {} tokens, expected 1 to {}",
           meta.metadata().source(), tokens->size(), kMaxVocabulary);
    }
    return static_cast<int64_t>(tokens->size());
  }
  return meta.count("vocab_size", kMaxVocabulary);
}

Pooling read_pooling(const ArchMetadata& meta) {
  constexpr int64_t kMost = static_cast<int64_t>(Pooling::rank);
  const int64_t type = meta.metadata().find_i64(meta.key("pooling_type")).value_or(0);
  if (type < 0 || type > kMost) {
    fail(ErrorCode::invalid_input, "{}: {} is {}, expected 0 to {}", meta.metadata().source(), meta.key("pooling_type"),
         type, kMost);
  }
  return static_cast<Pooling>(type);
}

}  // namespace

Config read_decoder_config(const gguf::File& file, graph::RopeStyle style, Norm norm) {
  const ArchMetadata meta(file);
  const std::string& source = file.metadata().source();
  Config config;
  config.architecture = file.metadata().require_string("general.architecture");
  config.name = std::string(file.metadata().find_string("general.name").value_or(""));
  config.layers = meta.count("block_count", kMaxLayers);
  config.width = meta.count("embedding_length", kMaxWidth);
  config.ffn_width = meta.count("feed_forward_length", kMaxWidth);
  config.heads = meta.count("attention.head_count", kMaxHeads);
  config.kv_heads = meta.find_count("attention.head_count_kv", kMaxHeads).value_or(config.heads);
  if (config.heads % config.kv_heads != 0) {
    fail(ErrorCode::invalid_input, "{}: {} is {}, expected a divisor of the head count {}", source,
         meta.key("attention.head_count_kv"), config.kv_heads, config.heads);
  }
  const auto key_size = meta.find_count("attention.key_length", kMaxHeadSize);
  if (!key_size && config.width % config.heads != 0) {
    fail(ErrorCode::invalid_input, "{}: {} is {}, expected a divisor of the embedding length {}, or {} to be given",
         source, meta.key("attention.head_count"), config.heads, config.width, meta.key("attention.key_length"));
  }
  config.key_size = key_size.value_or(config.width / config.heads);
  config.value_size = meta.find_count("attention.value_length", kMaxHeadSize).value_or(config.key_size);
  config.vocabulary = read_vocabulary(meta);
  config.context_length = meta.count("context_length", kMaxContext);
  config.norm = norm;
  config.norm_eps =
      meta.positive(norm == Norm::rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon");
  config.attention_scale = 1.0F / std::sqrt(static_cast<float>(config.key_size));
  config.rope = read_rope(file, meta, config, style);
  config.pooling = read_pooling(meta);
  return config;
}

namespace {

// The period of the flags "this layer has a window": every so manieth is global, 0: none is.
std::optional<int64_t> period_of(std::span<const std::byte> flags) {
  const auto global = std::find(flags.begin(), flags.end(), std::byte{0});
  if (global == flags.end()) return 0;
  const int64_t period = global - flags.begin() + 1;
  for (size_t layer = 0; layer < flags.size(); ++layer) {
    const bool is_global = (static_cast<int64_t>(layer) + 1) % period == 0;
    if ((flags[layer] == std::byte{0}) != is_global) return std::nullopt;
  }
  return period;
}

}  // namespace

void read_window(const gguf::File& file, int64_t period, Config& config) {
  const ArchMetadata meta(file);
  // Files of models without a window may say 0.
  if (meta.metadata().find_i64(meta.key("attention.sliding_window")).value_or(0) == 0) return;
  config.window = meta.count("attention.sliding_window", kMaxContext);
  config.window_period = period;
  config.window_rope = config.rope;
  const std::string key = meta.key("attention.sliding_window_pattern");
  const gguf::Value* pattern = meta.metadata().find(key);
  if (pattern == nullptr) return;
  if (pattern->type != gguf::ValueType::array || pattern->element_type != gguf::ValueType::boolean) {
    config.window_period = meta.count("attention.sliding_window_pattern", kMaxLayers);
    return;
  }
  const auto found = period_of(pattern->payload);
  if (!found || pattern->count != static_cast<uint64_t>(config.layers)) {
    fail(ErrorCode::unsupported,
         "{}: {} has {} flags for {} layers without a period; supported are windows in all layers but each nth",
         file.metadata().source(), key, pattern->count, config.layers);
  }
  config.window_period = *found;
}

void read_experts(const gguf::File& file, bool shared, Config& config) {
  const ArchMetadata meta(file);
  config.experts = meta.count("expert_count", graph::kMaxExperts);
  config.experts_used = meta.count("expert_used_count", graph::kMaxChosen);
  if (config.experts_used > config.experts) {
    fail(ErrorCode::invalid_input, "{}: {} is {}, expected at most the expert count {}", file.metadata().source(),
         meta.key("expert_used_count"), config.experts_used, config.experts);
  }
  config.expert_ffn_width = meta.count("expert_feed_forward_length", kMaxWidth);
  if (shared) config.shared_ffn_width = meta.count("expert_shared_feed_forward_length", kMaxWidth);
}

}  // namespace minfer::model
