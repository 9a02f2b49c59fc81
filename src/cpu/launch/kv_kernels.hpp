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

// K: destination is the element (dimension 0, first token) of a group; the rows go to consecutive tokens of that group
// (no more than fit). V: destination is the first token's row; the rows go to consecutive tokens.
namespace scalar {
void write_kv_k(KvFormat format, const KvRows& rows, std::byte* destination);
void write_kv_v(KvFormat format, const KvRows& rows, std::byte* destination);
}  // namespace scalar
namespace avx2 {
void write_kv_k(KvFormat format, const KvRows& rows, std::byte* destination);
void write_kv_v(KvFormat format, const KvRows& rows, std::byte* destination);
}  // namespace avx2
namespace avx512 {
void write_kv_k(KvFormat format, const KvRows& rows, std::byte* destination);
void write_kv_v(KvFormat format, const KvRows& rows, std::byte* destination);
}  // namespace avx512

}  // namespace minfer::cpu
