// Names and shape buckets of the IR. See ir.hpp.
#include "graph/ir.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "graph/ops.hpp"

namespace minfer::graph {

std::string_view op_name(Op op) {
  return op_info(op).name;
}

std::string_view format_name(Format format) {
  switch (format) {
    case Format::f32:
      return "f32";
    case Format::i32:
      return "i32";
    case Format::q8:
      return "q8";
    case Format::bf16:
      return "bf16";
    case Format::kv:
      return "kv";
    case Format::routes:
      return "routes";
  }
  return "unknown";
}

std::string_view rows_name(Rows rows) {
  return rows == Rows::tokens ? "tokens" : "outputs";
}

int64_t row_count(Rows rows, const StepShape& shape) {
  return rows == Rows::tokens ? shape.tokens : shape.outputs;
}

int64_t adapters_read(const Graph& graph) {
  int64_t count = 0;
  for (const Node& node : graph.nodes) {
    const auto* scale = std::get_if<AdapterScaleAttributes>(&node.attributes);
    if (scale != nullptr) count = std::max<int64_t>(count, scale->adapter + 1);
  }
  return count;
}

int64_t row_count(const ValueType& type, const StepShape& shape) {
  return row_count(type.rows, shape) * rows_each(type);
}

int64_t rows_each(const ValueType& type) {
  return type.format == Format::routes || type.chosen == 0 ? 1 : type.chosen;
}

namespace {

// Up to four counts are exact, above them two buckets a doubling: at most a third of a bucket stays unused.
int64_t bucket_count(int64_t count) {
  if (count <= 4) return count;
  int64_t power = 4;
  while (power * 2 < count) power *= 2;
  return count <= power + power / 2 ? power + power / 2 : power * 2;
}

}  // namespace

StepShape bucket_shape(int64_t tokens, int64_t outputs, int64_t max_tokens, StepKind kind) {
  check(tokens >= 1 && tokens <= max_tokens, "bucket_shape: token count out of range");
  check(outputs >= 0 && outputs <= std::min(tokens, kMaxOutputs), "bucket_shape: output count out of range");
  const int64_t bucket_tokens = std::min(bucket_count(tokens), max_tokens);
  int64_t bucket_outputs = 1;
  while (bucket_outputs < outputs) bucket_outputs *= 2;
  return {bucket_tokens, std::min(bucket_outputs, bucket_tokens), kind};
}

}  // namespace minfer::graph
