// Counting bytes and operations. See work.hpp.
#include "engine/work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.hpp"

namespace minfer::engine {
namespace {

// Whether it multiplies only the rows whose logits are wanted: the output matrix, and what follows attention in the
// last layer (model/decoder.hpp).
bool is_output(const graph::WeightSource& weight, const model::Config& config) {
  const std::string& name = weight.shape.name;
  const std::string last = fmt::format("blk.{}.", config.layers - 1);
  return weight.role == graph::WeightRole::tied_embedding || name == "output.weight" ||
         name.starts_with(last + "attn_output") || name.starts_with(last + "ffn_");
}

bool is_multiplied(const graph::WeightSource& weight) {
  return weight.role == graph::WeightRole::matrix || weight.role == graph::WeightRole::tied_embedding;
}

// Of its experts, the part that `tokens` tokens reach, were each as likely as any other.
double reached_part(const graph::WeightSource& weight, const model::Config& config, int64_t tokens) {
  if (weight.shape.experts == 1) return 1.0;
  const double used = static_cast<double>(config.experts_used) / static_cast<double>(weight.shape.experts);
  return 1.0 - std::pow(1.0 - used, static_cast<double>(tokens));
}

double element_bytes(graph::KvFormat format) {
  switch (format) {
    case graph::KvFormat::f32:
      return 4.0;
    case graph::KvFormat::f16:
    case graph::KvFormat::bf16:
      return 2.0;
    case graph::KvFormat::q8_0:
      return 34.0 / 32.0;
  }
  fail(ErrorCode::internal, "internal error: an unknown KV format");
}

// Positions that a token at position `depth` of a layer attends to, itself left out.
int64_t visible(const model::Config& config, int64_t layer, int64_t depth) {
  return config.is_window_layer(layer) ? std::min(depth, config.window) : depth;
}

}  // namespace

double decode_limit_seconds(const model::Model& model, const graph::Backend& device, const graph::DeviceLimits& limits,
                            const RunnerOptions& options, int64_t depth, int64_t streams) {
  const model::Config& config = model.config();
  double bytes = 0;
  for (const graph::WeightSource& weight : model.weights()) {
    if (!is_multiplied(weight)) continue;
    const auto held = static_cast<double>(device.choose_layout(weight.shape, weight.dtype, weight.role).bytes);
    bytes += held * reached_part(weight, config, streams);
  }
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const double position_bytes =
        static_cast<double>(config.kv_heads * config.key_size) * element_bytes(options.key_format) +
        static_cast<double>(config.kv_heads * config.value_size) * element_bytes(options.value_format);
    bytes += static_cast<double>(streams * visible(config, layer, depth)) * position_bytes;
  }
  return bytes / limits.read_bytes_per_second;
}

double prefill_limit_seconds(const model::Model& model, const graph::Backend& device, const graph::DeviceLimits& limits,
                             int64_t tokens, int64_t depth) {
  const model::Config& config = model.config();
  double seconds = 0;
  for (const graph::WeightSource& weight : model.weights()) {
    if (!is_multiplied(weight)) continue;
    const double rows = is_output(weight, config) ? 1.0 : static_cast<double>(tokens);
    const double used = reached_part(weight, config, 1) * static_cast<double>(weight.shape.experts);
    const double ops = 2.0 * rows * used * static_cast<double>(weight.shape.rows * weight.shape.cols);
    const bool q8 =
        device.activation_format(weight.dtype, weight.shape.experts, static_cast<int64_t>(rows)) == graph::Format::q8;
    seconds += ops / (q8 ? limits.dot8_ops_per_second : limits.float_ops_per_second);
  }
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    double pairs = 0;
    for (int64_t i = 0; i < tokens; ++i) pairs += static_cast<double>(visible(config, layer, depth + i) + 1);
    const double ops = 2.0 * static_cast<double>(config.heads * (config.key_size + config.value_size)) * pairs;
    seconds += ops / limits.float_ops_per_second;
  }
  return seconds;
}

}  // namespace minfer::engine
