// A model file opened and checked: Config, the tensors that its architecture uses with their shapes verified, and its
// graph function. Reads the header only: tensor data stays mapped and untouched until a device loads it.
// Owns the file; weights() are valid while the Model lives. Thread-safe for reading.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gguf/reader.hpp"
#include "graph/backend.hpp"
#include "model/adapter.hpp"
#include "model/arch.hpp"
#include "model/config.hpp"

namespace minfer::model {

class Model {
 public:
  // Errors: those of gguf::File; unsupported for an unknown architecture; invalid_input, naming the tensor, for one
  // that is missing or of a wrong shape; unsupported for one that the architecture does not use (leaving it out would
  // give wrong answers).
  explicit Model(gguf::File file);

  // A LoRA adapter of this model, its weights behind those that are there: before anything is planned. `scale` is what
  // a sequence gets of it that does not say otherwise. Errors: those of Adapter; unsupported or invalid_input, naming
  // the tensor, where it changes what the model does not have, or of another shape.
  void add_adapter(gguf::File file, float scale);
  std::span<const Adapter> adapters() const { return adapters_; }

  const gguf::File& file() const { return file_; }
  const Config& config() const { return config_; }
  std::span<const graph::WeightSource> weights() const { return sources_; }
  std::span<const graph::WeightShape> weight_shapes() const { return shapes_; }
  // The cache of one page for each layer. `context`: the most tokens that a sequence may have, on which RoPE depends.
  std::vector<graph::KvLayer> kv_layers(int64_t context) const;

  graph::Graph build_graph(const graph::StepShape& shape, int64_t context) const;

 private:
  void add_source(const WeightRow& row, const gguf::TensorInfo& tensor);
  graph::WeightId add_low_rank(const gguf::TensorInfo& tensor, int32_t layer);
  void add_transposed(const gguf::TensorInfo& tensor);
  void refuse_unused(std::span<const WeightRow> rows) const;

  gguf::File file_;
  const Architecture& architecture_;
  Config config_;
  std::vector<graph::WeightSource> sources_;
  std::vector<graph::WeightShape> shapes_;
  std::vector<Adapter> adapters_;
  std::vector<graph::LowRank> low_ranks_;
};

}  // namespace minfer::model
