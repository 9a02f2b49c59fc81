// What each instruction set provides for kv_append.cpp: a stretch of tokens written for one KV head. Plain pointers and
// integers only: kernel sources are compiled for their instruction set and share no inline code with the rest.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/launch/kv_layout.hpp"

namespace minfer::cpu {

// `rows` consecutive rows of `dim` floats, `source_stride` floats apart.
struct KvRows {
  const float* source;
  int64_t source_stride;
  int64_t rows;
  int64_t dim;
};

// Where the first row goes. K: (dimension 0, first token) of a page, the rows to consecutive tokens of it (no more than
// fit). V: the first token's row, the rows to consecutive tokens.
struct KvTarget {
  std::byte* elements;
  std::byte* scales;  // q8_0 only: of the first block
};

// q8_0: for each 32 elements d = greatest magnitude / 127, stored as f16; quants are x / d rounded to nearest, ties to
// even, all of it in f32. Where that f16 is 0 all quants are; a block with inf or NaN has a scale of inf or NaN.
namespace scalar {
void write_kv_k(KvFormat format, const KvRows& rows, const KvTarget& target);
void write_kv_v(KvFormat format, const KvRows& rows, const KvTarget& target);
// One element as f32; its scale where the format has them.
float kv_value(KvFormat format, const std::byte* element, const std::byte* scale);
}  // namespace scalar
namespace avx2 {
void write_kv_k(KvFormat format, const KvRows& rows, const KvTarget& target);
void write_kv_v(KvFormat format, const KvRows& rows, const KvTarget& target);
}  // namespace avx2
namespace avx512 {
void write_kv_k(KvFormat format, const KvRows& rows, const KvTarget& target);
void write_kv_v(KvFormat format, const KvRows& rows, const KvTarget& target);
}  // namespace avx512

}  // namespace minfer::cpu
