// Opening a model: metadata to Config, tensors against the architecture's rows. See model.hpp.
#include "model/model.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <unordered_set>
#include <utility>

#include "base/error.hpp"
#include "base/file_map.hpp"
#include "model/decoder.hpp"
#include "model/rope.hpp"
#include "model/transposed.hpp"
#include "tensor/dtype.hpp"

namespace minfer::model {
namespace {

std::string shape_text(const gguf::TensorInfo& tensor) {
  std::string text;
  for (int d = 0; d < tensor.dims; ++d)
    text += fmt::format("{}{}", d == 0 ? "" : " x ", tensor.shape[static_cast<size_t>(d)]);
  return text;
}

// The name and the rows of the tensor that holds a weight.
const std::string& tensor_name(const WeightRow& row) {
  return row.slice.tensor.empty() ? row.name : row.slice.tensor;
}
int64_t tensor_rows(const WeightRow& row) {
  return row.slice.tensor.empty() ? row.rows : row.slice.rows;
}

// The file's shape of a weight. Vectors of experts are a matrix there.
std::array<int64_t, 3> file_shape(const WeightRow& row) {
  if (row.role == graph::WeightRole::vector) return {row.cols, row.experts, 1};
  const int64_t rows = tensor_rows(row) / row.stacked;
  if (row.transposed) return {rows, row.cols, row.stacked};
  return {row.cols, rows, row.experts * row.stacked};
}

bool has_shape(const gguf::TensorInfo& tensor, const WeightRow& row) {
  const auto shape = file_shape(row);
  return std::equal(shape.begin(), shape.end(), tensor.shape.begin()) && tensor.shape[3] == 1;
}

std::string shape_text(const WeightRow& row) {
  const auto shape = file_shape(row);
  return fmt::format("{} x {}{}", shape[0], shape[1], shape[2] == 1 ? "" : fmt::format(" x {}", shape[2]));
}

// `bytes` of the tensor's data from `skipped` on.
graph::WeightSource mapped_source(const graph::WeightShape& shape, const gguf::TensorInfo& tensor,
                                  graph::WeightRole role, size_t skipped, size_t bytes) {
  std::function<void()> prefetch, release;
  if (tensor.map != nullptr) {
    const size_t offset = tensor.offset_bytes + skipped;
    prefetch = [map = tensor.map, offset, bytes] { map->will_need(offset, bytes); };
    release = [map = tensor.map, offset, bytes] { map->drop(offset, bytes); };
  }
  return {shape, tensor.dtype, role, {tensor.data + skipped, bytes}, std::move(prefetch), std::move(release)};
}

// Read by read_config, not by the graph.
bool is_config_tensor(std::string_view name) {
  return name == "rope_freqs.weight" || name == "rope_factors_short.weight" || name == "rope_factors_long.weight";
}

}  // namespace

Model::Model(gguf::File file)
    : file_(std::move(file)),
      architecture_(
          find_architecture(file_.metadata().require_string("general.architecture"), file_.metadata().source())),
      config_(architecture_.read_config(file_)) {
  const std::vector<WeightRow> rows = architecture_.weights(config_);
  for (const WeightRow& row : rows) {
    const gguf::TensorInfo* tensor = file_.find_tensor(tensor_name(row));
    if (tensor != nullptr) {
      add_source(row, *tensor);
    } else if (!row.optional) {
      fail(ErrorCode::invalid_input, "{}: tensor {} is missing; architecture {} needs it with shape {}",
           file_.metadata().source(), tensor_name(row), architecture_.name, shape_text(row));
    }
  }
  refuse_unused(rows);
}

void Model::add_source(const WeightRow& row, const gguf::TensorInfo& tensor) {
  if (!has_shape(tensor, row)) {
    fail(ErrorCode::invalid_input, "{}: tensor {} has shape {}, expected {} from the metadata",
         file_.metadata().source(), tensor.name, shape_text(tensor), shape_text(row));
  }
  // By the file's name of it: a device knows its parts' names alone.
  if (tensor::dtype_info(tensor.dtype).dequantize == nullptr) {
    fail(ErrorCode::unsupported, "{}: tensor {} has type {}, which minfer can't decode; take another quantization",
         file_.metadata().source(), tensor.name, tensor::dtype_info(tensor.dtype).name);
  }
  shapes_.push_back({row.name, row.rows, row.cols, block_layer(row.name), row.experts});
  if (row.transposed) return add_transposed(tensor);
  const auto row_bytes = static_cast<size_t>(tensor::row_bytes(tensor.dtype, row.cols));
  const bool whole = row.slice.tensor.empty();
  const size_t skipped = whole ? 0 : static_cast<size_t>(row.slice.first_row) * row_bytes;
  const size_t bytes = whole ? tensor.bytes : static_cast<size_t>(row.rows) * row_bytes;
  const bool tied = row.role == graph::WeightRole::embedding && file_.find_tensor("output.weight") == nullptr;
  const graph::WeightRole role = tied ? graph::WeightRole::tied_embedding : row.role;
  sources_.push_back(mapped_source(shapes_.back(), tensor, role, skipped, bytes));
}

graph::WeightId Model::add_low_rank(const gguf::TensorInfo& tensor, int32_t layer) {
  shapes_.push_back({std::string(tensor.name), tensor.shape[1], tensor.shape[0], layer});
  sources_.push_back(mapped_source(shapes_.back(), tensor, graph::WeightRole::matrix, 0, tensor.bytes));
  return static_cast<graph::WeightId>(shapes_.size() - 1);
}

void Model::add_adapter(gguf::File file, float scale) {
  if (adapters_.size() == kMaxAdapters) {
    fail(ErrorCode::invalid_input, "{}: one adapter too many; at most {} may be loaded", file.metadata().source(),
         kMaxAdapters);
  }
  const size_t own_weights = sources_.size();
  Adapter adapter(std::move(file), config_.architecture, scale);
  const auto number = static_cast<int32_t>(adapters_.size());
  for (const AdapterPair& pair : adapter.pairs()) {
    const auto weight = std::find_if(sources_.begin(), sources_.end(),
                                     [&](const graph::WeightSource& w) { return w.shape.name == pair.weight; });
    check_pair(adapter, pair, weight == sources_.end() ? nullptr : &*weight);
    const auto matrix = static_cast<graph::WeightId>(weight - sources_.begin());
    const int32_t layer = weight->shape.layer;
    const graph::WeightId down = add_low_rank(*pair.down, layer);
    low_ranks_.push_back({matrix, down, add_low_rank(*pair.up, layer), number, adapter.factor(pair)});
  }
  check(sources_.size() == own_weights + 2 * adapter.pairs().size(), "an adapter of other weights than its pairs");
  adapters_.push_back(std::move(adapter));
}

void Model::add_transposed(const gguf::TensorInfo& tensor) {
  const auto turned = std::make_shared<Transposed>(tensor);
  sources_.push_back({shapes_.back(), tensor::DType::f32, graph::WeightRole::matrix, turned->data(),
                      [turned] { turned->make(); }, [turned] { turned->drop(); }});
}

void Model::refuse_unused(std::span<const WeightRow> rows) const {
  std::unordered_set<std::string_view> used;
  for (const WeightRow& row : rows) used.insert(tensor_name(row));
  for (const gguf::TensorInfo& tensor : file_.tensors()) {
    if (used.contains(tensor.name) || is_config_tensor(tensor.name)) continue;
    fail(ErrorCode::unsupported,
         "{}: tensor {} is not part of architecture {} as minfer knows it; the model would run wrongly without it",
         file_.metadata().source(), tensor.name, architecture_.name);
  }
}

std::vector<graph::KvLayer> Model::kv_layers(int64_t context) const {
  std::vector<graph::KvLayer> layers;
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    const bool window = config_.is_window_layer(layer);
    const Rope rope = (window ? config_.window_rope : config_.rope).for_context(context);
    graph::KvRotation rotation{{}, rope.style};
    if (config_.has_rope(layer)) rotation.inverse_frequencies = rope_frequencies(rope).inverse_frequencies;
    layers.push_back(
        {config_.kv_heads, config_.key_size, config_.value_size, window ? config_.window : 0, std::move(rotation)});
  }
  return layers;
}

graph::Graph Model::build_graph(const graph::StepShape& shape, int64_t context) const {
  graph::Builder builder(shapes_, shape, low_ranks_);
  Config config = config_;
  config.rope = config_.rope.for_context(context);
  config.window_rope = config_.window_rope.for_context(context);
  return architecture_.build(builder, config);
}

}  // namespace minfer::model
