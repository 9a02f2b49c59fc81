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
#include "model/arch.hpp"
#include "model/config.hpp"

namespace minfer::model {

class Model {
 public:
  // Errors: those of gguf::File; unsupported for an unknown architecture; invalid_input, naming the tensor, for one
  // that is missing or of a wrong shape; unsupported for one that the architecture does not use (leaving it out would
  // give wrong answers).
  explicit Model(gguf::File file);

  const gguf::File& file() const { return file_; }
  const Config& config() const { return config_; }
  std::span<const graph::WeightSource> weights() const { return sources_; }
  std::span<const graph::WeightShape> weight_shapes() const { return shapes_; }
  // The cache of one page for each layer. `context`: the most tokens that a sequence may have, on which RoPE depends.
  std::vector<graph::KvLayer> kv_layers(int64_t context) const;

  graph::Graph build_graph(const graph::StepShape& shape, int64_t context) const;

 private:
  void add_source(const WeightRow& row, const gguf::TensorInfo& tensor);
  void refuse_unused(std::span<const WeightRow> rows) const;

  gguf::File file_;
  const Architecture& architecture_;
  Config config_;
  std::vector<graph::WeightSource> sources_;
  std::vector<graph::WeightShape> shapes_;
};

}  // namespace minfer::model
