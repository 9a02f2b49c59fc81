// A LoRA adapter: a GGUF file (general.type "adapter", adapter.type "lora") that holds, for some matrices W of a model,
// a pair of narrow ones: W x becomes W x + scale * factor * up (down x), with factor alpha / rank (adapter.lora.alpha;
// 1 where that is 0). Tensors are named as the model's, with ".lora_a" (down, [inputs][rank]) and ".lora_b" (up,
// [rank][outputs]) behind; dimensions here are the file's, the fastest first. The pair stays apart from W: weights stay
// quantized and shared, and each sequence has scales of its own. Format: llama.cpp's convert_lora_to_gguf.py.
// Owns its file; immutable.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "gguf/reader.hpp"
#include "graph/backend.hpp"

namespace minfer::model {

constexpr int64_t kMaxAdapterRank = 4096;
constexpr size_t kMaxAdapters = 64;          // of one model
constexpr float kMaxAdapterScale = 1000.0F;  // in either direction

struct AdapterPair {
  std::string weight;  // of the model
  const gguf::TensorInfo* down;
  const gguf::TensorInfo* up;
};

class Adapter {
 public:
  // Errors: unsupported where the file is no adapter, or none of this architecture or kind; invalid_input, naming the
  // key or the tensor, for a tensor without its other half, a rank out of bounds, a scale that is no number or beyond
  // kMaxAdapterScale.
  Adapter(gguf::File file, const std::string& architecture, float scale);

  const gguf::File& file() const { return file_; }
  const std::string& source() const { return file_.metadata().source(); }
  // The file's, without folder and ending.
  std::string name() const { return std::filesystem::path(source()).stem().string(); }
  float scale() const { return scale_; }
  std::span<const AdapterPair> pairs() const { return pairs_; }
  float factor(const AdapterPair& pair) const;

 private:
  void read_pairs();

  gguf::File file_;
  float scale_;
  float alpha_;
  std::vector<AdapterPair> pairs_;
};

// Errors: unsupported where the weight (null: there is none) is no matrix of a product; invalid_input for other shapes.
void check_pair(const Adapter& adapter, const AdapterPair& pair, const graph::WeightSource* weight);

}  // namespace minfer::model
