// Test support: the vocabulary of a GGUF file, read without the gguf room (which this room may not include). Only what
// the tokenizer's tests need: metadata of version 2 and 3 files, little-endian; it trusts the file.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/file_map.hpp"
#include "tokenizer/vocab.hpp"

namespace minfer::tokenizer {

class GgufVocabFile {
 public:
  explicit GgufVocabFile(const std::string& path) : map_(path) {
    take<uint32_t>();  // magic
    take<uint32_t>();  // version
    take<uint64_t>();  // tensors
    const auto keys = take<uint64_t>();
    for (uint64_t key = 0; key < keys; ++key) read_pair();
  }
  const VocabData& data() const { return data_; }

 private:
  enum Kind : uint32_t { kBool = 7, kString = 8, kArray = 9 };
  static size_t scalar_bytes(uint32_t kind) {
    constexpr size_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return kSizes[kind];
  }
  template <class Value>
  Value take() {
    Value value;
    std::memcpy(&value, map_.bytes().data() + offset_, sizeof(value));
    offset_ += sizeof(value);
    return value;
  }
  std::string_view take_string() {
    const auto size = static_cast<size_t>(take<uint64_t>());
    const std::string_view text(reinterpret_cast<const char*>(map_.bytes().data()) + offset_, size);
    offset_ += size;
    return text;
  }

  void read_pair() {
    const std::string_view key = take_string();
    const auto kind = take<uint32_t>();
    if (kind == kArray) {
      read_array(key);
    } else if (kind == kString) {
      const std::string_view text = take_string();
      if (key == "tokenizer.ggml.model") data_.model = text;
      if (key == "tokenizer.ggml.pre") data_.pre = text;
    } else {
      int64_t value = 0;
      std::memcpy(&value, map_.bytes().data() + offset_, scalar_bytes(kind));
      offset_ += scalar_bytes(kind);
      read_scalar(key, value);
    }
  }

  void read_scalar(std::string_view key, int64_t value) {
    if (key == "tokenizer.ggml.bos_token_id") data_.bos = value;
    if (key == "tokenizer.ggml.eos_token_id") data_.eos = value;
    if (key == "tokenizer.ggml.unknown_token_id") data_.unk = value;
    if (key == "tokenizer.ggml.padding_token_id") data_.pad = value;
    if (key == "tokenizer.ggml.add_bos_token") data_.add_bos = value != 0;
    if (key == "tokenizer.ggml.add_eos_token") data_.add_eos = value != 0;
    if (key == "tokenizer.ggml.add_space_prefix") data_.add_space_prefix = value != 0;
  }

  void read_array(std::string_view key) {
    const auto kind = take<uint32_t>();
    const auto count = static_cast<size_t>(take<uint64_t>());
    if (kind == kString) {
      std::vector<std::string_view> texts(count);
      for (auto& text : texts) text = take_string();
      if (key == "tokenizer.ggml.tokens") data_.tokens = std::move(texts);
      if (key == "tokenizer.ggml.merges") data_.merges = std::move(texts);
      return;
    }
    const auto* from = map_.bytes().data() + offset_;
    if (key == "tokenizer.ggml.scores") {
      data_.scores.resize(count);
      std::memcpy(data_.scores.data(), from, count * sizeof(float));
    }
    if (key == "tokenizer.ggml.token_type") {
      data_.types.resize(count);
      std::memcpy(data_.types.data(), from, count * sizeof(int32_t));
    }
    offset_ += count * scalar_bytes(kind);
  }

  FileMap map_;
  size_t offset_ = 0;
  VocabData data_;
};

}  // namespace minfer::tokenizer
