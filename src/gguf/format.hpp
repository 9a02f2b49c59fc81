// Vocabulary of the GGUF file format, shared by reader and writer: value types, named limits, and the rules for names
// and shapes, so that the writer can't produce what the reader refuses. Source: ggml's docs/gguf.md, versions 2 and 3.
//
// All numbers are little-endian and unaligned. string: u64 length, bytes. array: u32 element type, u64 count, elements.
//   header        "GGUF"  u32 version  u64 tensor count  u64 key count
//   metadata      a key: string key, u32 value type, value
//   tensor infos  a tensor: string name, u32 dims, u64 size a dim (fastest first), u32 element type, u64 data offset
//   padding to general.alignment (metadata, u32; 32 if absent), then tensor data; data offsets count from its start,
//   and each is a multiple of the alignment
// Version 1 had 32-bit counts. Version 2 and 3 differ only in that 3 allows big-endian files, which minfer refuses.
// Nested arrays are checked and kept as raw bytes up to kMaxArrayDepth; no getter reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tensor/dtype.hpp"

namespace minfer::gguf {

inline constexpr std::string_view kMagic = "GGUF";
inline constexpr uint32_t kOldestVersion = 2;
inline constexpr uint32_t kNewestVersion = 3;  // what the writer writes
inline constexpr size_t kHeaderBytes = 24;

inline constexpr std::string_view kAlignmentKey = "general.alignment";
inline constexpr uint32_t kDefaultAlignment = 32;
inline constexpr uint32_t kMinAlignment = 8;  // the specification: a multiple of 8
inline constexpr uint32_t kMaxAlignment = 1 << 20;

inline constexpr uint64_t kMaxTensors = 1 << 20;
inline constexpr uint64_t kMaxKeys = 1 << 16;
inline constexpr uint64_t kMaxKeyBytes = 65535;  // the specification
// The specification says 64, and readers built for image models allow 127; a longer name has no meaning anywhere.
inline constexpr uint64_t kMaxTensorNameBytes = 127;
inline constexpr uint32_t kMaxDims = 4;
inline constexpr uint64_t kMaxArrayElements = 1 << 28;
inline constexpr int kMaxArrayDepth = 4;  // an array of numbers or strings has depth 1
inline constexpr int64_t kMaxSplitParts = 4096;

// Values are the ids used in files.
enum class ValueType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};
inline constexpr uint32_t kValueTypes = 13;

// "u8", "bool", "string", ...
std::string_view value_type_name(ValueType type);
// Bytes of a value of a fixed size (bool: 1); 0 for string and array.
size_t value_type_bytes(ValueType type);

// Why `key` is no valid metadata key, in words for an error; empty when it is: 1 to kMaxKeyBytes bytes of UTF-8 without
// control characters. (The specification wants lower snake case; public files have hyphens and capitals too.)
std::string key_problem(std::string_view key);
// The same for a tensor name, with kMaxTensorNameBytes.
std::string tensor_name_problem(std::string_view name);

// The bytes of a tensor's data, or why the shape is invalid.
struct TensorExtent {
  uint64_t bytes = 0;
  std::string problem;  // empty: valid
};
// shape[0] is the fastest dimension. Valid: 1 to kMaxDims dims of at least 1, an element count and a byte count under
// 2^63, shape[0] a multiple of the type's block.
TensorExtent tensor_extent(tensor::DType dtype, std::span<const uint64_t> shape);

// Why an alignment is invalid: a power of two from kMinAlignment to kMaxAlignment; empty when it is valid.
std::string alignment_problem(uint32_t alignment);

}  // namespace minfer::gguf
