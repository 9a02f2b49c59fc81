// An architecture: how to read its metadata, which tensors it has, and its graph. One file and one row of
// arch_table.cpp add one. Devices never see an architecture's name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/reader.hpp"
#include "graph/backend.hpp"
#include "graph/builder.hpp"
#include "model/config.hpp"

namespace minfer::model {

// Rows of a matrix in a file that several weights of a graph share.
struct Slice {
  std::string tensor;  // none: the weight is a tensor of its own
  int64_t first_row = 0;
  int64_t rows = 0;  // of the whole tensor
};

// A tensor that the architecture uses: a matrix of `rows` outputs by `cols` inputs, or a vector of `cols`; of experts
// one behind the other.
struct WeightRow {
  std::string name;
  graph::WeightRole role;
  int64_t rows;  // 1 for a vector
  int64_t cols;
  bool optional = false;
  int64_t experts = 1;
  Slice slice = {};
  // In the file the rows are those of so many matrices, each of which may be the other way round.
  int64_t stacked = 1;
  bool transposed = false;
};

struct Architecture {
  std::string_view name;  // general.architecture
  // Errors: invalid_input, naming the key, for a missing or absurd value.
  Config (*read_config)(const gguf::File& file);
  std::vector<WeightRow> (*weights)(const Config& config);
  // Pure: equal config and shape, equal graph. Optional weights are looked up in the builder.
  graph::Graph (*build)(graph::Builder& builder, const Config& config);
};

std::span<const Architecture> architectures();
// Errors: unsupported, naming the architecture and the known ones.
const Architecture& find_architecture(std::string_view name, std::string_view file);

extern const Architecture kLlama;
extern const Architecture kQwen2;
extern const Architecture kQwen3;
extern const Architecture kQwen2Moe;
extern const Architecture kQwen3Moe;
extern const Architecture kGemma3;
extern const Architecture kGptOss;
extern const Architecture kDeepSeek2;
extern const Architecture kBert;
extern const Architecture kNomicBert;
extern const Architecture kGemma;
extern const Architecture kGemma2;
extern const Architecture kMistral3;
extern const Architecture kPhi3;
extern const Architecture kGranite;
extern const Architecture kOlmo2;
extern const Architecture kSmolLm3;
extern const Architecture kGlm4;
extern const Architecture kStarCoder2;
extern const Architecture kStableLm;
extern const Architecture kCohere2;
extern const Architecture kExaone4;

}  // namespace minfer::model
