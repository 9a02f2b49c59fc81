// Decoding every weight, some blocks at a time, to find one that is no number. See weight_check.hpp.
#include "model/weight_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "tensor/dtype.hpp"

namespace minfer::model {
namespace {

constexpr int64_t kChunkElements = 1 << 14;

struct Broken {
  int64_t element;
  float value;
};

std::optional<Broken> find_broken(const graph::WeightSource& weight) {
  const tensor::DTypeInfo& info = tensor::dtype_info(weight.dtype);
  if (info.dequantize == nullptr) return std::nullopt;
  const int64_t elements = weight.shape.experts * weight.shape.rows * weight.shape.cols;
  std::vector<float> chunk(static_cast<size_t>(std::max<int64_t>(kChunkElements, info.block_elements)));
  const int64_t step = static_cast<int64_t>(chunk.size()) / info.block_elements * info.block_elements;
  for (int64_t first = 0; first < elements; first += step) {
    const int64_t count = std::min(step, elements - first);
    const std::byte* source = weight.data.data() + first / info.block_elements * info.block_bytes;
    info.dequantize(source, count / info.block_elements, chunk.data());
    const auto end = chunk.begin() + static_cast<std::ptrdiff_t>(count);
    const auto found = std::find_if(chunk.begin(), end, [](float value) { return !std::isfinite(value); });
    if (found != end) return Broken{first + (found - chunk.begin()), *found};
  }
  return std::nullopt;
}

}  // namespace

std::string describe_broken_weights(const Model& model) {
  for (const graph::WeightSource& weight : model.weights()) {
    // Some weights are there only in between (WeightSource).
    if (weight.prefetch) weight.prefetch();
    const auto broken = find_broken(weight);
    if (weight.release) weight.release();
    if (!broken) continue;
    return fmt::format("tensor {} has {} at row {}, column {}", weight.shape.name,
                       std::isnan(broken->value) ? "NaN" : "infinity", broken->element / weight.shape.cols,
                       broken->element % weight.shape.cols);
  }
  return "no weight is NaN or infinity";
}

}  // namespace minfer::model
