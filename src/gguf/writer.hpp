// Writes GGUF files (version 3): metadata and tensors are declared first, then finish() writes everything in one pass
// under a temporary name and renames it, so that a file of the final name is always whole. Tensor data is streamed from
// its producer: a file of many gigabytes never lies in memory. What is written, the reader accepts: names, shapes,
// counts and alignment follow the same rules (format.hpp).
//
// Errors: invalid_input for a name, shape, alignment or amount of data against the rules, naming it; io from the
// system. One thread; the path's folder must exist. Data is not forced to the disk (fsync) before the rename.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "gguf/format.hpp"
#include "tensor/dtype.hpp"

namespace minfer::gguf {

// The value type that a C++ number is stored as; only these 11 types have one.
template <class T>
struct NumberType;
template <ValueType kType>
struct NumberTypeIs {
  static constexpr ValueType kValue = kType;
};
template <>
struct NumberType<uint8_t> : NumberTypeIs<ValueType::u8> {};
template <>
struct NumberType<int8_t> : NumberTypeIs<ValueType::i8> {};
template <>
struct NumberType<uint16_t> : NumberTypeIs<ValueType::u16> {};
template <>
struct NumberType<int16_t> : NumberTypeIs<ValueType::i16> {};
template <>
struct NumberType<uint32_t> : NumberTypeIs<ValueType::u32> {};
template <>
struct NumberType<int32_t> : NumberTypeIs<ValueType::i32> {};
template <>
struct NumberType<uint64_t> : NumberTypeIs<ValueType::u64> {};
template <>
struct NumberType<int64_t> : NumberTypeIs<ValueType::i64> {};
template <>
struct NumberType<float> : NumberTypeIs<ValueType::f32> {};
template <>
struct NumberType<double> : NumberTypeIs<ValueType::f64> {};
template <>
struct NumberType<bool> : NumberTypeIs<ValueType::boolean> {};

class Writer {
 public:
  // Takes the next bytes of a tensor.
  using Sink = std::function<void(std::span<const std::byte>)>;
  // Hands a tensor's data to the sink in order, in pieces of any size, exactly as many bytes as its type and shape
  // need.
  using Producer = std::function<void(const Sink& sink)>;

  // Nothing is written before finish(). An alignment other than kDefaultAlignment adds the key general.alignment.
  explicit Writer(std::string path, uint32_t alignment = kDefaultAlignment);

  // Adds a key; a second one of the same name is an error, and so is general.alignment (the constructor's business).
  template <class T>
  void add(std::string_view key, T value) {
    add_entry(key, NumberType<T>::kValue, std::as_bytes(std::span<const T>(&value, 1)));
  }
  template <class T>
  void add_array(std::string_view key, std::span<const T> values) {
    add_array_entry(key, NumberType<std::remove_const_t<T>>::kValue, values.size(), std::as_bytes(values));
  }
  void add_string(std::string_view key, std::string_view value);
  void add_strings(std::string_view key, std::span<const std::string> values);

  // Declares a tensor; shape[0] is the fastest dimension. The producer is called once, by finish().
  void add_tensor(std::string_view name, tensor::DType dtype, std::span<const int64_t> shape, Producer producer);
  // The same for data that stays valid until finish().
  void add_tensor(std::string_view name, tensor::DType dtype, std::span<const int64_t> shape,
                  std::span<const std::byte> data);

  // Writes the file. Call it once, last. On an error the temporary file is removed and the path is left as it was.
  void finish();

 private:
  struct Tensor {
    std::string name;
    tensor::DType dtype;
    std::vector<uint64_t> shape;
    uint64_t bytes;
    uint64_t offset;  // in the data section
    Producer producer;
  };

  void add_entry(std::string_view key, ValueType type, std::span<const std::byte> payload);
  void add_array_entry(std::string_view key, ValueType element_type, uint64_t count,
                       std::span<const std::byte> payload);
  void begin_entry(std::string_view key, ValueType type);
  std::string encode_header() const;

  std::string path_;
  uint32_t alignment_;
  std::string entries_;  // encoded metadata
  std::unordered_set<std::string> keys_;
  std::vector<Tensor> tensors_;
  std::unordered_set<std::string> tensor_names_;
  uint64_t data_bytes_ = 0;  // of the data section so far, padded
  bool finished_ = false;
};

}  // namespace minfer::gguf
