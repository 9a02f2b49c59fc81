// Reading a Config's fields from metadata: keys are "<architecture>.<field>", values are range-checked with an error
// that names file, key, found and allowed. Shared by the architectures' read_config.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gguf/reader.hpp"
#include "model/config.hpp"

namespace minfer::model {

class ArchMetadata {
 public:
  explicit ArchMetadata(const gguf::File& file);

  const gguf::Metadata& metadata() const { return metadata_; }
  std::string key(std::string_view field) const { return architecture_ + "." + std::string(field); }

  // An integer in [1, most].
  int64_t count(std::string_view field, int64_t most) const;
  std::optional<int64_t> find_count(std::string_view field, int64_t most) const;
  // A finite number above zero.
  float positive(std::string_view field) const;
  std::optional<float> find_positive(std::string_view field) const;
  // A RoPE base: a finite number above 1, so that every frequency is at most 1 (published models: 10000 and more).
  std::optional<float> find_rope_base(std::string_view field) const;

 private:
  const gguf::Metadata& metadata_;
  std::string architecture_;
};

// The fields that every decoder-only transformer has: sizes, heads, vocabulary, context, norm epsilon, RoPE with its
// scaling (`style` is the architecture's). Attention scale becomes 1 / sqrt(key size). Checks their relations.
Config read_decoder_config(const gguf::File& file, graph::RopeStyle style, Norm norm = Norm::rms);
// Adds the sliding window, if the file has one. Every `period`th layer is global (0: none is), unless the file has a
// pattern of its own: a period, or a flag a layer. Errors: unsupported for flags without a period.
void read_window(const gguf::File& file, int64_t period, Config& config);
// Adds what a mixture of experts has: counts and widths, that of a shared expert where `shared`.
void read_experts(const gguf::File& file, bool shared, Config& config);

}  // namespace minfer::model
