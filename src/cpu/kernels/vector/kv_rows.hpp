// Writing of KV pages, written over V: the register type Simd of an instruction set and what kernels/<isa>/kv.cpp adds
// (store_half, store_brain: a register to kLanes 16-bit numbers; half: one number). Rows are converted a register or a
// q8_0 block at a time into a small buffer; V copies it as it comes, K stores its lanes 64 tokens apart: with all
// tokens of a page in one call every cache line is filled while it is in the first-level cache. Layout:
// launch/kv_layout.hpp; contract: launch/kv_kernels.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/launch/kv_kernels.hpp"

namespace minfer::cpu {

template <class V>
struct KvWriter {
  using Reg = typename V::Float;
  static constexpr int64_t kBlock = kKvBlockElements;
  static constexpr int kBlockRegs = static_cast<int>(kBlock / V::kLanes);
  static constexpr uint16_t kHalfMagnitude = 0x7FFF;

  static void store_half(uint16_t* target, Reg a) { V::store_half(target, a); }
  static void store_brain(uint16_t* target, Reg a) { V::store_brain(target, a); }

  // 32 floats to quants and a scale.
  static void quantize(const float* x, int8_t* quants, uint16_t* scale) {
    Reg block[kBlockRegs];
    for (int i = 0; i < kBlockRegs; ++i) block[i] = V::load(x + i * V::kLanes);
    const float d = __builtin_bit_cast(float, V::largest_magnitude_bits(block)) / 127.0F;
    *scale = V::half(d);
    // A divisor of inf makes every quant 0 or, of inf, something whose product with the scale is not finite either.
    V::quantize(block, (*scale & kHalfMagnitude) == 0 ? __builtin_inff() : d, quants);
  }

  // `step` elements of T apart in the page.
  template <void (*Store)(uint16_t*, Reg)>
  static void write_halves(const float* source, int64_t dim, uint16_t* target, int64_t step) {
    alignas(64) uint16_t halves[V::kLanes];
    for (int64_t d = 0; d < dim; d += V::kLanes) {
      const int64_t count = dim - d < V::kLanes ? dim - d : V::kLanes;
      Store(halves, V::load_first(source + d, count));
      for (int64_t i = 0; i < count; ++i) target[(d + i) * step] = halves[i];
    }
  }

  template <void (*Store)(uint16_t*, Reg)>
  static void write_half_row(const float* source, int64_t dim, uint16_t* target) {
    int64_t d = 0;
    for (; d + V::kLanes <= dim; d += V::kLanes) Store(target + d, V::load(source + d));
    write_halves<Store>(source + d, dim - d, target + d, 1);
  }

  static void write_k(KvFormat format, const KvRows& rows, const KvTarget& target) {
    for (int64_t r = 0; r < rows.rows; ++r) {
      const float* source = rows.source + r * rows.source_stride;
      auto* halves = reinterpret_cast<uint16_t*>(target.elements) + r;
      if (format == KvFormat::f16) {
        write_halves<store_half>(source, rows.dim, halves, kKvPageTokens);
      } else if (format == KvFormat::bf16) {
        write_halves<store_brain>(source, rows.dim, halves, kKvPageTokens);
      } else if (format == KvFormat::q8_0) {
        write_k_blocks(source, rows.dim, reinterpret_cast<int8_t*>(target.elements) + r,
                       reinterpret_cast<uint16_t*>(target.scales) + r);
      } else {
        float* out = reinterpret_cast<float*>(target.elements) + r;
        for (int64_t d = 0; d < rows.dim; ++d) out[d * kKvPageTokens] = source[d];
      }
    }
  }

  static void write_k_blocks(const float* source, int64_t dim, int8_t* target, uint16_t* scales) {
    alignas(64) int8_t quants[kBlock];
    for (int64_t d = 0; d < dim; d += kBlock) {
      quantize(source + d, quants, scales + d / kBlock * kKvPageTokens);
      for (int64_t i = 0; i < kBlock; ++i) target[(d + i) * kKvPageTokens] = quants[i];
    }
  }

  static void write_v(KvFormat format, const KvRows& rows, const KvTarget& target) {
    for (int64_t r = 0; r < rows.rows; ++r) {
      const float* source = rows.source + r * rows.source_stride;
      auto* halves = reinterpret_cast<uint16_t*>(target.elements) + r * rows.dim;
      if (format == KvFormat::f16) {
        write_half_row<store_half>(source, rows.dim, halves);
      } else if (format == KvFormat::bf16) {
        write_half_row<store_brain>(source, rows.dim, halves);
      } else if (format == KvFormat::q8_0) {
        auto* quants = reinterpret_cast<int8_t*>(target.elements) + r * rows.dim;
        auto* scales = reinterpret_cast<uint16_t*>(target.scales) + r * (rows.dim / kBlock);
        for (int64_t d = 0; d < rows.dim; d += kBlock) quantize(source + d, quants + d, scales + d / kBlock);
      } else {
        __builtin_memcpy(reinterpret_cast<float*>(target.elements) + r * rows.dim, source,
                         static_cast<size_t>(rows.dim) * sizeof(float));
      }
    }
  }
};

}  // namespace minfer::cpu
