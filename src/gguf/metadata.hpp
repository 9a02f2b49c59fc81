// The metadata of a GGUF file: its keys and values as views into the file's bytes, with getters that check. A
// vocabulary of a quarter million strings is a view too: nothing is allocated for it.
//
// Getters: find_x returns nullopt for an absent key, require_x (for the kinds that the product needs it for) throws;
// both throw for a present key of a wrong type or a value that does not fit, naming file, key, byte offset, what was
// found and what was expected. Integer getters accept every integer type when the value fits. Strings may hold any
// bytes. Views are valid while the bytes are (the File that made them); thread-safe for reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/format.hpp"

namespace minfer::gguf {

// One entry. `payload` is the value as it is encoded in the file, for an array its elements only; it has been checked.
struct Value {
  std::string_view key;
  ValueType type = ValueType::u8;
  ValueType element_type = ValueType::u8;  // arrays only
  uint64_t count = 1;                      // elements of an array, else 1
  std::span<const std::byte> payload;
  size_t offset_bytes = 0;  // of the value (an array's element type), from the start of the file
};

// "u32", "array of 262144 string": for messages and listings.
std::string describe_type(const Value& value);

// The strings of an array in order, read from their encoding as the iterator moves: a forward range of string_view.
class StringArray {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::string_view*;
    using reference = std::string_view;

    Iterator() = default;
    explicit Iterator(const std::byte* at) : at_(at) {}
    std::string_view operator*() const;
    Iterator& operator++();
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    const std::byte* at_ = nullptr;
  };

  // `payload` holds `count` encoded strings and nothing else (the reader has checked it).
  StringArray(std::span<const std::byte> payload, size_t count) : payload_(payload), count_(count) {}
  size_t size() const { return count_; }
  Iterator begin() const { return Iterator(payload_.data()); }
  Iterator end() const { return Iterator(payload_.data() + payload_.size()); }

 private:
  std::span<const std::byte> payload_;
  size_t count_;
};

class Metadata {
 public:
  // `source` names the file in errors; `values` have distinct keys.
  Metadata(std::string source, std::vector<Value> values);

  const std::string& source() const { return source_; }
  // All entries in file order.
  std::span<const Value> values() const { return values_; }
  // The entry with a key, nullptr if there is none.
  const Value* find(std::string_view key) const;

  std::optional<uint32_t> find_u32(std::string_view key) const;
  std::optional<int64_t> find_i64(std::string_view key) const;
  std::optional<float> find_f32(std::string_view key) const;  // an f64 that f32 can hold is rounded to nearest
  std::optional<bool> find_bool(std::string_view key) const;
  std::optional<std::string_view> find_string(std::string_view key) const;
  std::optional<StringArray> find_strings(std::string_view key) const;
  // Copies; elements of any integer type that fit in 32 bits.
  std::optional<std::vector<int32_t>> find_i32_array(std::string_view key) const;
  std::optional<std::vector<float>> find_f32_array(std::string_view key) const;  // f32 or f64 elements

  int64_t require_i64(std::string_view key) const;
  float require_f32(std::string_view key) const;
  std::string_view require_string(std::string_view key) const;
  StringArray require_strings(std::string_view key) const;

 private:
  [[noreturn]] void fail_missing(std::string_view key, std::string_view expected) const;
  [[noreturn]] void fail_type(const Value& value, std::string_view expected) const;
  // The value of an integer entry if it lies in [low, high]; errors otherwise.
  int64_t integer(const Value& value, int64_t low, int64_t high, std::string_view expected) const;
  const Value* find_array(std::string_view key, bool (*accepts)(ValueType), std::string_view expected) const;

  std::string source_;
  std::vector<Value> values_;
  // key -> index in values_; ordered, so that no choice of keys makes it slow
  std::map<std::string_view, size_t> index_;
};

}  // namespace minfer::gguf
