// What the codecs of the quantized types share: reading a block from bytes of any alignment, and the super-block size.
// A file's tensor data is only aligned to the file's own alignment, and a caller may hold a row at any byte, so a block
// is copied out (memcpy) before its fields are read; no pointer to a block struct into the source is ever formed.
// Fields are little-endian, as GGUF stores them; minfer runs on little-endian machines only (checked below).
// Every type's header has: Block<Type>, its layout with a size check; unpack_quants(block), the integer quants in
// element order; functions for packed scales; dequantize_<type>, the scalar decoder that dtype.cpp's table names.
// Kernels' own weight layouts are made from the unpack functions; the decoders are the oracle for those kernels.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace minfer::tensor {

static_assert(std::endian::native == std::endian::little, "GGUF blocks are read as they lie: little-endian");

inline constexpr int kBlockElements = 32;        // Q4_0 ... Q8_0, IQ4_NL, MXFP4
inline constexpr int kSuperBlockElements = 256;  // the K types and IQ4_XS

// Block `index` of consecutive blocks at `source` (any alignment).
template <class Block>
Block load_block(const std::byte* source, int64_t index) {
  Block block;
  std::memcpy(&block, source + index * static_cast<int64_t>(sizeof(Block)), sizeof(Block));
  return block;
}

}  // namespace minfer::tensor
