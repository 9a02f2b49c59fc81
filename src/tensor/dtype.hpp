// Element types: every type id that the GGUF format names, with its name, block size and codec where minfer has one.
// A quantized type stores `block_elements` consecutive elements of a row in `block_bytes` bytes; plain types have
// blocks of one. Ids and sizes: the ggml format (ggml/docs/gguf.md and ggml.h). One row of the table in dtype.cpp adds
// a type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace minfer::tensor {

// Values are the ids used in GGUF files.
enum class DType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q8_1 = 9,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  q8_k = 15,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq1_s = 19,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  i8 = 24,
  i16 = 25,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  iq1_m = 29,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
  nvfp4 = 40,
  q1_0 = 41,
  q2_0 = 42,
};

// Decodes `blocks` consecutive blocks from `source` (any alignment) to blocks * block_elements floats.
using DequantizeFn = void (*)(const std::byte* source, int64_t blocks, float* destination);

struct DTypeInfo {
  DType dtype;
  std::string_view name;    // as the field writes it: "F16", "Q4_K", "IQ4_NL"
  int32_t block_elements;   // elements a block
  int32_t block_bytes;      // bytes a block
  DequantizeFn dequantize;  // nullptr: known, but minfer can't decode it
};

// The row of a type that is in the table; every DType is.
const DTypeInfo& dtype_info(DType dtype);
// The type with a GGUF type id; nullopt for an id that the format does not name (removed ids included).
std::optional<DType> dtype_from_id(uint32_t id);

// Bytes of a row of `elements`; elements must be a multiple of the block size and the result fit (checked: internal).
int64_t row_bytes(DType dtype, int64_t elements);

// IEEE half and bfloat16 to float, exact; float to half and bfloat16 rounds to nearest even.
float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);
float bfloat16_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);

}  // namespace minfer::tensor
