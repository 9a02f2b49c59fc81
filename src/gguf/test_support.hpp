// Helpers of the room's tests: a builder of raw GGUF bytes, valid or not, with the offset of each field as it goes; a
// folder that cleans up after itself; and the error that an action throws.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/test_support.hpp"
#include "gguf/format.hpp"
#include "gguf/reader.hpp"

namespace minfer::gguf::test {

// Appends fields in file order. Nothing is checked: tests write what no writer would.
class Bytes {
 public:
  template <class T>
  Bytes& number(T value) {
    const auto raw = std::as_bytes(std::span<const T>(&value, 1));
    data_.insert(data_.end(), raw.begin(), raw.end());
    return *this;
  }
  Bytes& u32(uint64_t value) { return number(static_cast<uint32_t>(value)); }
  Bytes& u64(uint64_t value) { return number(value); }
  Bytes& raw(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    data_.insert(data_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Bytes& string(std::string_view text) { return u64(text.size()).raw(text); }
  Bytes& type(ValueType value) { return u32(static_cast<uint32_t>(value)); }
  Bytes& header(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    return raw("GGUF").u32(version).u64(tensors).u64(keys);
  }
  Bytes& key(std::string_view name, ValueType value_type) { return string(name).type(value_type); }
  Bytes& tensor(std::string_view name, const std::vector<uint64_t>& shape, uint32_t dtype, uint64_t offset) {
    string(name).u32(shape.size());
    for (const uint64_t size : shape) u64(size);
    return u32(dtype).u64(offset);
  }
  Bytes& zeros(size_t count) {
    data_.resize(data_.size() + count);
    return *this;
  }
  Bytes& pad(size_t alignment = 32) { return zeros((alignment - data_.size() % alignment) % alignment); }

  size_t size() const { return data_.size(); }
  const std::vector<std::byte>& data() const { return data_; }
  std::vector<std::byte>& data() { return data_; }

 private:
  std::vector<std::byte> data_;
};

inline File open_bytes(std::span<const std::byte> bytes, const std::string& name = "bad.gguf") {
  const MemoryPart part{name, bytes};
  return File::from_memory(std::span(&part, 1));
}

inline std::string open_error(const Bytes& bytes) {
  return error_of([&] { open_bytes(bytes.data()); });
}

// A folder for one test, removed at its end.
class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(std::filesystem::path(::testing::TempDir()) / ("minfer_gguf_" + name)) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, std::span<const std::byte> bytes) const {
    std::ofstream out(file(name), std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return file(name);
  }
  size_t entries() const { return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path_), {})); }

 private:
  std::filesystem::path path_;
};

inline std::vector<std::byte> read_bytes(const std::string& path) {
  const FileMap map(path);
  return {map.bytes().begin(), map.bytes().end()};
}

}  // namespace minfer::gguf::test
