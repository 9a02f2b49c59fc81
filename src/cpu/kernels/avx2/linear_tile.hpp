// The AVX2 tile of a quantized linear: see launch/linear_kernels.hpp. Only for the sources in this folder; each
// instantiates it for some formats.
//
// One 32-bit lane a row of the weight, 8 rows a panel. For each sub-block of 32 along k, in order, an output does
//   i  = exact integer sum of quants x activations
//   p += float(i) * (scale_w * scale_x)                      two scales: p += (float(i0) s0 + float(i1) s1) * scale_x
//   p -= min_w * sum_x                                       types with minima
// and nothing else, in `stream` as in `sweep`: so its bits depend on nothing around it.
//
// The integer sum: vpmaddubsw multiplies unsigned by signed bytes and adds two products in 16 bits, saturating; as many
// of these as a format's range allows (kDepth) are added in 16 bits, then vpmaddwd with ones widens them. Which side is
// unsigned (Sign): plain quants are; for `offset` the activations, as x + 128, and 128 times the sum of the quants is
// taken off by a start value. `wide` quants do not fit: few columns take |quant| times the activation with the quant's
// sign, many columns multiply in 16 bits (vpmaddwd alone), quants and activations widened once.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "cpu/kernels/avx2/linear_formats.hpp"
#include "cpu/launch/linear_kernels.hpp"

namespace minfer::cpu::avx2 {
namespace {

constexpr int kLanes = 8;
constexpr int64_t kBlock = 32;  // elements
constexpr int kQuads = 8;       // a block
constexpr int kTileBlocks = 8;  // blocks unpacked at once
constexpr int kSweepPanels = 2;
constexpr int64_t kPrefetchBytes = 4096;

// Columns a sweep: as many as 16 registers hold with the integer sums of two panels.
template <class F>
constexpr int kSweepColumns = F::kDepth == 2 ? 3 : 4;

// Columns that are streamed. In a sweep both panels share a broadcast, and the sums of some columns stay in registers:
// worth its way through memory from here on, but not where few quads are added in 16 bits. Measured on Zen 4.
template <class F>
constexpr int64_t kMostStreamed = F::kDepth <= 2 ? kStreamColumns : (F::kSign == Sign::plain ? 9 : 4);

// Where a row of activations has its parts, in bytes.
struct RowLayout {
  int64_t scales;
  int64_t sums;
};
[[gnu::always_inline]] inline RowLayout row_layout(int64_t k) {
  const int64_t scales = (k + 63) / 64 * 64;
  return {scales, scales + k / kBlock * 4};
}

[[gnu::always_inline]] inline __m256 broadcast(const std::byte* p) {
  return _mm256_broadcast_ss(reinterpret_cast<const float*>(p));
}

[[gnu::always_inline]] inline __m256i broadcast_quad(const std::byte* p) {
  return _mm256_set1_epi32(*reinterpret_cast<const int32_t*>(p));
}

// Products of one quad in 16 bits.
template <Sign kSign>
[[gnu::always_inline]] inline __m256i multiply(__m256i w, __m256i x) {
  if constexpr (kSign == Sign::plain) return _mm256_maddubs_epi16(w, x);
  if constexpr (kSign == Sign::offset) return _mm256_maddubs_epi16(x, w);
  return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}

// The sum, formed at once: compilers would reorder a chain of additions, keep all its terms and spill them.
[[gnu::always_inline]] inline __m256i add_words(__m256i a, __m256i b) {
  __m256i sum = _mm256_add_epi16(a, b);
  asm("" : "+x"(sum));
  return sum;
}

[[gnu::always_inline]] inline __m256i add_integers(__m256i a, __m256i b) {
  __m256i sum = _mm256_add_epi32(a, b);
  asm("" : "+x"(sum));
  return sum;
}

[[gnu::always_inline]] inline __m256i widen(__m256i sums) {
  return _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
}

// -128 times the sum of the quants of kCount quads: the integer start value of `offset` formats. The quants of so many
// quads, of -16 ... 15 (8 quads) or -32 ... 31 (4) at most, add up in 8 bits.
template <int kCount>
[[gnu::always_inline]] inline __m256i start_value(const __m256i* quads) {
  __m256i sum = quads[0];
  for (int q = 1; q < kCount; ++q) sum = _mm256_add_epi8(sum, quads[q]);
  return _mm256_sub_epi32(_mm256_setzero_si256(), widen(_mm256_maddubs_epi16(_mm256_set1_epi8(-128), sum)));
}

// Scaled sums of the 16 halves of 8 blocks of one row: scale of the block times the exact integer sum.
[[gnu::always_inline]] inline void half_sums(const std::byte* quants, const std::byte* scales, float* out) {
  const __m256i ones = _mm256_set1_epi8(1);
  for (int i = 0; i < 2; ++i) {
    __m256i v[4];
    for (int j = 0; j < 4; ++j) {
      const auto* p = reinterpret_cast<const __m256i*>(quants + 128 * i + 32 * j);
      v[j] = widen(_mm256_maddubs_epi16(ones, _mm256_loadu_si256(p)));
    }
    const __m256i a = _mm256_hadd_epi32(v[0], v[1]);
    const __m256i b = _mm256_hadd_epi32(v[2], v[3]);
    // Lane j of the low half has the first half of block j, of the high half the second.
    const __m256i sums = _mm256_hadd_epi32(a, b);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m128 d = _mm_loadu_ps(reinterpret_cast<const float*>(scales + 16 * i));
    const __m256 factor =
        _mm256_permutevar8x32_ps(_mm256_castps128_ps256(d), _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
    const __m256 floats = _mm256_cvtepi32_ps(_mm256_permutevar8x32_epi32(sums, order));
    _mm256_storeu_ps(out + 8 * i, _mm256_mul_ps(factor, floats));
  }
}

// Adds one block to an output's product. `sums`: of the block (kHalves 1) or of its halves.
template <class F>
[[gnu::always_inline]] inline __m256 fold(__m256 product, const __m256i* integers, const float* scales,
                                          const float* mins, int64_t stride, __m256 scale_x, const std::byte* sums) {
  if constexpr (F::kHalves == 1) {
    const __m256 scale = _mm256_mul_ps(_mm256_load_ps(scales), scale_x);
    product = _mm256_fmadd_ps(_mm256_cvtepi32_ps(integers[0]), scale, product);
  } else {
    __m256 part = _mm256_mul_ps(_mm256_cvtepi32_ps(integers[1]), _mm256_load_ps(scales + stride));
    part = _mm256_fmadd_ps(_mm256_cvtepi32_ps(integers[0]), _mm256_load_ps(scales), part);
    product = _mm256_fmadd_ps(part, scale_x, product);
  }
  if constexpr (F::kMins) {
    for (int h = 0; h < F::kHalves; ++h) {
      product = _mm256_fnmadd_ps(_mm256_load_ps(mins + h * stride), broadcast(sums + 4 * h), product);
    }
  }
  return product;
}

// One block of activations of some rows: each part and its bytes from a row to the next. Quants as the format reads
// them; sums of the block, or of its halves.
struct BlockActivations {
  const std::byte* quants;
  const std::byte* scales;
  int64_t quants_stride;
  int64_t scales_stride;
  const std::byte* sums;
  int64_t sums_stride;
};

[[gnu::always_inline]] inline void store(void* p, __m256i v) {
  _mm256_store_si256(static_cast<__m256i*>(p), v);
}
[[gnu::always_inline]] inline __m256i load_aligned(const void* p) {
  return _mm256_load_si256(static_cast<const __m256i*>(p));
}

// One row's activations of some blocks as `offset` formats read them: an exclusive or for 8 quads, where one with each
// broadcast would cost an eighth of the time.
struct alignas(32) OffsetActivations {
  std::byte quants[kTileBlocks * kBlock];
};

[[gnu::always_inline]] inline void offset_activations(const std::byte* x, int64_t blocks, OffsetActivations& out) {
  for (int64_t b = 0; b < blocks; ++b) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + b * kBlock));
    store(out.quants + b * kBlock, _mm256_xor_si256(v, _mm256_set1_epi8(-128)));
  }
}

// The integer start values of a block: one for each scale.
template <class F>
[[gnu::always_inline]] inline void start_values(const Quads& w, __m256i (&start)[F::kHalves]) {
  constexpr int kPart = kQuads / F::kHalves;
  for (int h = 0; h < F::kHalves; ++h) {
    start[h] = _mm256_setzero_si256();
    if constexpr (F::kSign == Sign::offset) start[h] = start_value<kPart>(w.q + h * kPart);
  }
}

// One block of one panel added to the product of one column.
template <class F>
[[gnu::always_inline]] inline __m256 add_block(__m256 product, int64_t column, const Quads& w,
                                               const __m256i (&start)[F::kHalves], const float* scales,
                                               const float* mins, const BlockActivations& x) {
  constexpr int kPart = kQuads / F::kHalves;
  __m256i integers[F::kHalves];
  for (int h = 0; h < F::kHalves; ++h) {
    integers[h] = start[h];
    for (int part = h * kPart; part < (h + 1) * kPart; part += F::kDepth) {
      __m256i words = _mm256_setzero_si256();
      for (int q = part; q < part + F::kDepth; ++q) {
        const __m256i a = broadcast_quad(x.quants + column * x.quants_stride + 4 * q);
        const __m256i two = multiply<F::kSign>(w.q[q], a);
        words = q == part ? two : add_words(words, two);
      }
      integers[h] = _mm256_add_epi32(integers[h], widen(words));
    }
  }
  return fold<F>(product, integers, scales, mins, kLanes, broadcast(x.scales + column * x.scales_stride),
                 x.sums + column * x.sums_stride);
}

// Few columns: one panel, weights unpacked in registers, once for all columns, which follow each other: the processor
// overlaps them by itself. Their sums along k lie in `out`, in L1; that of a single column (kOne) in a register, as
// nothing covers its way through memory. A thread reads one stream of addresses: reading groups of four panels in turns
// halves the rate on Zen 4, whose prefetcher then starts anew with each group. With several columns it falls behind, so
// the kernel asks for what it reads kPrefetchBytes later: a block's share with each block, as a whole group at once
// finds no free buffers.
template <class F, bool kOne>
void stream(const LinearTile& tile, const std::byte* panel, float* out, int64_t out_stride) {
  constexpr int kScales = F::kBlocks * F::kHalves;
  constexpr int kBlockBytes = F::kGroupBytes / F::kBlocks;
  const int64_t columns = kOne ? 1 : tile.columns;
  const RowLayout layout = row_layout(tile.k);
  const int64_t groups = tile.k / (kBlock * F::kBlocks);
  __m256 one = _mm256_setzero_ps();
  for (int64_t c = 0; c < columns; ++c) _mm256_store_ps(out + c * out_stride, one);
  for (int64_t g = 0; g < groups; ++g) {
    const std::byte* x = tile.x + g * F::kBlocks * kBlock;
    const std::byte* xs = tile.x + layout.scales + g * F::kBlocks * 4;
    const std::byte* xm = tile.x + layout.sums + g * F::kBlocks * 4;
    BlockActivations block{x, xs, tile.x_stride, tile.x_stride, xm, tile.x_stride};
    [[maybe_unused]] OffsetActivations offset[kMostStreamed<F>];
    if constexpr (F::kSign == Sign::offset) {
      for (int64_t c = 0; c < columns; ++c) offset_activations(x + c * tile.x_stride, F::kBlocks, offset[c]);
      block.quants = offset[0].quants;
      block.quants_stride = sizeof(offset[0]);
    }
    alignas(32) float halves[kMostStreamed<F>][16];
    if constexpr (F::kMins && F::kHalves == 2) {
      for (int64_t c = 0; c < columns; ++c) half_sums(x + c * tile.x_stride, xs + c * tile.x_stride, halves[c]);
      block.sums = reinterpret_cast<const std::byte*>(halves[0]);
      block.sums_stride = sizeof(halves[0]);
    }
    const auto* group = reinterpret_cast<const uint8_t*>(panel) + g * F::kGroupBytes;
    alignas(32) float scales[kScales * kLanes];
    alignas(32) float mins[kScales * kLanes];
    F::scales(group, scales, mins, kLanes);
    for (int b = 0; b < F::kBlocks; ++b) {
      if constexpr (!kOne) {
        for (int i = 0; i < kBlockBytes; i += 64) __builtin_prefetch(group + kPrefetchBytes + b * kBlockBytes + i);
      }
      Quads w;
      F::quads(group, b, w);
      __m256i start[F::kHalves];
      start_values<F>(w, start);
      const float* block_scales = scales + b * F::kHalves * kLanes;
      const float* block_mins = mins + b * F::kHalves * kLanes;
      if constexpr (kOne) {
        one = add_block<F>(one, 0, w, start, block_scales, block_mins, block);
      } else {
        for (int64_t c = 0; c < columns; ++c) {
          float* sums = out + c * out_stride;
          _mm256_store_ps(sums, add_block<F>(_mm256_load_ps(sums), c, w, start, block_scales, block_mins, block));
        }
      }
      block.quants += kBlock;
      block.scales += 4;
      block.sums += 4 * F::kHalves;
    }
  }
  if constexpr (kOne) _mm256_store_ps(out, one);
}

// kTileBlocks blocks of kPanels panels, unpacked. `wide` quads are two vectors of 16 bits: bytes 0 and 2, bytes 1
// and 3.
template <class F, int kPanels>
struct alignas(64) Unpacked {
  static constexpr int kParts = F::kSign == Sign::wide ? 2 : 1;
  uint8_t quads[kTileBlocks][kQuads][kParts][kPanels][32];
  float scales[kTileBlocks * F::kHalves][kPanels][kLanes];
  float mins[kTileBlocks * F::kHalves][kPanels][kLanes];
  int32_t starts[kTileBlocks * F::kHalves][kPanels][kLanes];
};

// The bytes 0 and 2, or 1 and 3, of each 4, widened.
[[gnu::always_inline]] inline __m256i even_bytes(__m256i v) {
  return _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8);
}
[[gnu::always_inline]] inline __m256i odd_bytes(__m256i v) {
  return _mm256_srai_epi16(v, 8);
}

// Asks for block b of what unpack will read kTileBlocks blocks after the group at `offset` of panel p: across the end
// of a panel, that of the next kPanels panels. Panels read in turns are too much for the hardware's prefetcher.
template <class F, int kPanels>
[[gnu::always_inline]] inline void prefetch_next(const LinearTile& tile, int p, int64_t offset, int b) {
  constexpr int kBlockBytes = F::kGroupBytes / F::kBlocks;
  int64_t next = offset + kTileBlocks / F::kBlocks * F::kGroupBytes;
  if (next >= tile.panel_stride) next += (kPanels - 1) * tile.panel_stride;
  const std::byte* block = tile.panels + p * tile.panel_stride + next + b * kBlockBytes;
  for (int i = 0; i < kBlockBytes; i += 64) __builtin_prefetch(block + i);
}

template <class F, int kPanels>
[[gnu::always_inline]] inline void unpack(const LinearTile& tile, int64_t first_block, int64_t blocks,
                                          Unpacked<F, kPanels>& out) {
  constexpr int kPart = kQuads / F::kHalves;
  for (int64_t at = 0; at < blocks; at += F::kBlocks) {
    for (int p = 0; p < kPanels; ++p) {
      const int64_t offset = (first_block + at) / F::kBlocks * F::kGroupBytes;
      const auto* group = reinterpret_cast<const uint8_t*>(tile.panels) + p * tile.panel_stride + offset;
      const int64_t slot = at * F::kHalves;
      F::scales(group, out.scales[slot][p], out.mins[slot][p], kPanels * kLanes);
      for (int b = 0; b < F::kBlocks; ++b) {
        prefetch_next<F, kPanels>(tile, p, offset, b);
        Quads w;
        F::quads(group, b, w);
        for (int q = 0; q < kQuads; ++q) {
          if constexpr (F::kSign == Sign::wide) {
            store(out.quads[at + b][q][0][p], even_bytes(w.q[q]));
            store(out.quads[at + b][q][1][p], odd_bytes(w.q[q]));
          } else {
            store(out.quads[at + b][q][0][p], w.q[q]);
          }
        }
        if constexpr (F::kSign == Sign::offset) {
          for (int h = 0; h < F::kHalves; ++h) {
            store(out.starts[slot + b * F::kHalves + h][p], start_value<kPart>(w.q + h * kPart));
          }
        }
      }
    }
  }
}

// One row's activations of kTileBlocks blocks in 16 bits, in the order of `wide` quads.
struct alignas(32) WideActivations {
  std::byte parts[2][kTileBlocks * kBlock];
};

[[gnu::always_inline]] inline void widen_activations(const std::byte* x, int64_t blocks, WideActivations& out) {
  for (int64_t b = 0; b < blocks; ++b) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + b * kBlock));
    store(out.parts[0] + b * kBlock, even_bytes(v));
    store(out.parts[1] + b * kBlock, odd_bytes(v));
  }
}

// The integer sums of one block of a `wide` format.
template <class F, int kPanels, int kColumns>
[[gnu::always_inline]] inline void block_sums_wide(const Unpacked<F, kPanels>& w, int64_t block,
                                                   const WideActivations* x, __m256i (&integers)[kColumns][kPanels]) {
  for (int c = 0; c < kColumns; ++c) {
    for (int p = 0; p < kPanels; ++p) integers[c][p] = _mm256_setzero_si256();
  }
#pragma GCC unroll 8
  for (int q = 0; q < kQuads; ++q) {
    for (int part = 0; part < 2; ++part) {
      __m256i quads[kPanels];
      for (int p = 0; p < kPanels; ++p) quads[p] = load_aligned(w.quads[block][q][part][p]);
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) {
        const __m256i a = broadcast_quad(x[c].parts[part] + block * kBlock + 4 * q);
        for (int p = 0; p < kPanels; ++p) {
          integers[c][p] = add_integers(integers[c][p], _mm256_madd_epi16(quads[p], a));
        }
      }
    }
  }
}

// kDepth quads from `part`, added in 16 bits and widened: few quads, so they stay in registers for all columns and
// their sums do not.
template <class F, int kPanels, int kColumns>
[[gnu::always_inline]] inline void add_shallow(const Unpacked<F, kPanels>& w, int64_t block, int part,
                                               const std::byte* x, int64_t x_stride,
                                               __m256i (&integers)[kColumns][kPanels]) {
  __m256i quads[F::kDepth][kPanels];
  for (int q = 0; q < F::kDepth; ++q) {
    for (int p = 0; p < kPanels; ++p) quads[q][p] = load_aligned(w.quads[block][part + q][0][p]);
  }
#pragma GCC unroll 8
  for (int c = 0; c < kColumns; ++c) {
    __m256i a[F::kDepth];
    for (int q = 0; q < F::kDepth; ++q) a[q] = broadcast_quad(x + c * x_stride + 4 * (part + q));
    for (int p = 0; p < kPanels; ++p) {
      __m256i words = multiply<F::kSign>(quads[0][p], a[0]);
      for (int q = 1; q < F::kDepth; ++q) {
        words = add_words(words, multiply<F::kSign>(quads[q][p], a[q]));
      }
      integers[c][p] = add_integers(integers[c][p], widen(words));
    }
  }
}

// The same with more quads: their sums stay in registers.
template <class F, int kPanels, int kColumns>
[[gnu::always_inline]] inline void add_deep(const Unpacked<F, kPanels>& w, int64_t block, int part, const std::byte* x,
                                            int64_t x_stride, __m256i (&integers)[kColumns][kPanels]) {
  __m256i words[kColumns][kPanels];
#pragma GCC unroll 8
  for (int q = part; q < part + F::kDepth; ++q) {
    __m256i quads[kPanels];
    for (int p = 0; p < kPanels; ++p) quads[p] = load_aligned(w.quads[block][q][0][p]);
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      const __m256i a = broadcast_quad(x + c * x_stride + 4 * q);
      for (int p = 0; p < kPanels; ++p) {
        const __m256i product = multiply<F::kSign>(quads[p], a);
        words[c][p] = q == part ? product : add_words(words[c][p], product);
      }
    }
  }
  for (int c = 0; c < kColumns; ++c) {
    for (int p = 0; p < kPanels; ++p) integers[c][p] = add_integers(integers[c][p], widen(words[c][p]));
  }
}

// The integer sums of one block or half block, from quad `first`, for kPanels panels and kColumns columns.
template <class F, int kPanels, int kColumns>
[[gnu::always_inline]] inline void block_sums(const Unpacked<F, kPanels>& w, int64_t block, int64_t slot, int first,
                                              const std::byte* x, int64_t x_stride,
                                              __m256i (&integers)[kColumns][kPanels]) {
  for (int c = 0; c < kColumns; ++c) {
    for (int p = 0; p < kPanels; ++p) {
      integers[c][p] = F::kSign == Sign::offset ? load_aligned(w.starts[slot][p]) : _mm256_setzero_si256();
    }
  }
#pragma GCC unroll 8
  for (int part = first; part < first + kQuads / F::kHalves; part += F::kDepth) {
    if constexpr (F::kDepth <= 2) {
      add_shallow<F, kPanels, kColumns>(w, block, part, x, x_stride, integers);
    } else {
      add_deep<F, kPanels, kColumns>(w, block, part, x, x_stride, integers);
    }
  }
}

// Adds the unpacked blocks times kColumns rows of activations to `products` (rows of kPanels * 8, products_stride
// floats apart); x, xs and xm are at the first block's quants, scales and sums of the first row.
template <class F, int kPanels, int kColumns>
[[gnu::noinline]] void sweep(const Unpacked<F, kPanels>& w, int64_t blocks, const std::byte* x, const std::byte* xs,
                             const std::byte* xm, int64_t x_stride, float* products, int64_t products_stride) {
  alignas(32) float halves[kColumns][16];
  if constexpr (F::kMins && F::kHalves == 2) {
    for (int c = 0; c < kColumns; ++c) half_sums(x + c * x_stride, xs + c * x_stride, halves[c]);
  }
  [[maybe_unused]] WideActivations wide[F::kSign == Sign::wide ? kColumns : 1];
  if constexpr (F::kSign == Sign::wide) {
    for (int c = 0; c < kColumns; ++c) widen_activations(x + c * x_stride, blocks, wide[c]);
  }
  [[maybe_unused]] OffsetActivations offset[F::kSign == Sign::offset ? kColumns : 1];
  if constexpr (F::kSign == Sign::offset) {
    for (int c = 0; c < kColumns; ++c) offset_activations(x + c * x_stride, blocks, offset[c]);
  }
  const std::byte* quants = F::kSign == Sign::offset ? offset[0].quants : x;
  const int64_t quants_stride = F::kSign == Sign::offset ? int64_t{sizeof(offset[0])} : x_stride;
  // 16 registers do not hold the sums along k too: they stay in memory, in L1.
  for (int64_t b = 0; b < blocks; ++b) {
    __m256i integers[F::kHalves][kColumns][kPanels];
    for (int h = 0; h < F::kHalves; ++h) {
      if constexpr (F::kSign == Sign::wide) {
        block_sums_wide<F, kPanels, kColumns>(w, b, wide, integers[h]);
      } else {
        block_sums<F, kPanels, kColumns>(w, b, b * F::kHalves + h, h * (kQuads / F::kHalves), quants + b * kBlock,
                                         quants_stride, integers[h]);
      }
    }
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      const std::byte* block_sums_x = xm + c * x_stride + 4 * b;
      if constexpr (F::kHalves == 2) block_sums_x = reinterpret_cast<const std::byte*>(halves[c] + 2 * b);
      const __m256 scale_x = broadcast(xs + c * x_stride + 4 * b);
      for (int p = 0; p < kPanels; ++p) {
        __m256i sums[F::kHalves];
        for (int h = 0; h < F::kHalves; ++h) sums[h] = integers[h][c][p];
        float* out = products + c * products_stride + p * kLanes;
        _mm256_store_ps(out, fold<F>(_mm256_load_ps(out), sums, w.scales[b * F::kHalves][p], w.mins[b * F::kHalves][p],
                                     kPanels * kLanes, scale_x, block_sums_x));
      }
    }
  }
}

// Columns of the next sweep, of `left`: full sweeps, the last two of equal size.
[[gnu::always_inline]] inline int64_t next_columns(int64_t left, int64_t step) {
  if (left <= step) return left;
  return left < 2 * step ? (left + 1) / 2 : step;
}

template <class F, int kPanels, int kColumns>
[[gnu::always_inline]] inline void sweep_columns(int64_t columns, const Unpacked<F, kPanels>& w, int64_t blocks,
                                                 const std::byte* x, const std::byte* xs, const std::byte* xm,
                                                 int64_t x_stride, float* products, int64_t products_stride) {
  if constexpr (kColumns > 0) {
    if (columns == kColumns) {
      return sweep<F, kPanels, kColumns>(w, blocks, x, xs, xm, x_stride, products, products_stride);
    }
    sweep_columns<F, kPanels, kColumns - 1>(columns, w, blocks, x, xs, xm, x_stride, products, products_stride);
  }
}

// Many columns: kPanels panels are unpacked once for all of them.
template <class F, int kPanels>
void sweep_panels(const LinearTile& tile) {
  const RowLayout layout = row_layout(tile.k);
  const int64_t blocks = tile.k / kBlock;
  const int64_t products_stride = tile.panels_count * kLanes;
  for (int64_t c = 0; c < tile.columns; ++c) {
    for (int p = 0; p < kPanels; ++p) {
      _mm256_store_ps(tile.products + c * products_stride + p * kLanes, _mm256_setzero_ps());
    }
  }
  Unpacked<F, kPanels> w;
  for (int64_t first = 0; first < blocks; first += kTileBlocks) {
    const int64_t count = blocks - first < kTileBlocks ? blocks - first : kTileBlocks;
    unpack<F, kPanels>(tile, first, count, w);
    for (int64_t c = 0; c < tile.columns;) {
      const int64_t columns = next_columns(tile.columns - c, kSweepColumns<F>);
      const std::byte* row = tile.x + c * tile.x_stride;
      sweep_columns<F, kPanels, kSweepColumns<F>>(columns, w, count, row + first * kBlock,
                                                  row + layout.scales + first * 4, row + layout.sums + first * 4,
                                                  tile.x_stride, tile.products + c * products_stride, products_stride);
      c += columns;
    }
  }
}

template <class F>
void sweep_all(LinearTile tile) {
  int64_t left = tile.panels_count;
  for (; left >= kSweepPanels; left -= kSweepPanels) {
    sweep_panels<F, kSweepPanels>(tile);
    tile.panels += kSweepPanels * tile.panel_stride;
    tile.products += kSweepPanels * kLanes;
  }
  if (left > 0) sweep_panels<F, 1>(tile);
}

template <class F>
void linear_tile_of(const LinearTile& tile) {
  if (tile.columns > kMostStreamed<F>) return sweep_all<F>(tile);
  for (int64_t p = 0; p < tile.panels_count; ++p) {
    const std::byte* panel = tile.panels + p * tile.panel_stride;
    float* out = tile.products + p * kLanes;
    const int64_t out_stride = tile.panels_count * kLanes;
    if (tile.columns == 1) {
      stream<F, true>(tile, panel, out, out_stride);
    } else {
      stream<F, false>(tile, panel, out, out_stride);
    }
  }
}

}  // namespace
}  // namespace minfer::cpu::avx2
