// The AVX-512 tile of a quantized linear: see launch/linear_kernels.hpp. Only for the sources in this folder; each
// instantiates it for some formats.
//
// One 32-bit lane a row of the weight, 16 rows a panel. For each sub-block of 32 along k, in order, an output does
//   i  = exact integer sum of quants x activations           (8 vpdpbusd, activations broadcast)
//   p += float(i) * (scale_w * scale_x)                      two scales: p += (float(i0) s0 + float(i1) s1) * scale_x
//   p -= min_w * sum_x                                       types with minima
// and nothing else, in `stream` as in `sweep`: so its bits depend on nothing around it.
// vpdpbusd takes one unsigned side. Types without an offset are unsigned themselves; for the others the activations
// are, as x + 128 (an exclusive or that costs nothing, as part of the broadcast), and 128 times the sum of the quants
// is taken off by the integer start value.
// Compiled for AMX (the folder amx) a sweep of 16 columns and more has its integer sums from tdpbssd, 16 columns times
// 16 rows at once: they are the same integers, added to the products in the same order, and so the bits are the same.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "cpu/kernels/avx512/linear_formats.hpp"
#include "cpu/launch/linear_kernels.hpp"
#if defined(__AMX_INT8__)
#include "cpu/kernels/amx/tile_config.hpp"
#endif

namespace minfer::cpu::avx512 {
namespace {

constexpr int kLanes = 16;
constexpr int64_t kBlock = 32;  // elements
constexpr int kQuads = 8;       // a block
constexpr int kTileBlocks = 8;  // blocks unpacked at once
constexpr int kSweepPanels = 2;
constexpr int64_t kPrefetchBytes = 4096;

// Where a row of activations has its parts, in bytes.
struct RowLayout {
  int64_t scales;
  int64_t sums;
};
[[gnu::always_inline]] inline RowLayout row_layout(int64_t k) {
  const int64_t scales = (k + 63) / 64 * 64;
  return {scales, scales + k / kBlock * 4};
}

[[gnu::always_inline]] inline __m512 broadcast(const std::byte* p) {
  return _mm512_set1_ps(*reinterpret_cast<const float*>(p));
}

template <bool kSigned>
[[gnu::always_inline]] inline __m512i activations(const std::byte* p) {
  const __m512i v = _mm512_set1_epi32(*reinterpret_cast<const int32_t*>(p));
  return kSigned ? _mm512_xor_si512(v, _mm512_set1_epi8(-128)) : v;
}

template <bool kSigned>
[[gnu::always_inline]] inline __m512i dot(__m512i sum, __m512i weights, __m512i x) {
  return kSigned ? _mm512_dpbusd_epi32(sum, x, weights) : _mm512_dpbusd_epi32(sum, weights, x);
}

// -128 times the sum of the quants of `count` quads: the integer start value of signed formats.
[[gnu::always_inline]] inline __m512i start_value(const __m512i* quads, int count) {
  __m512i sum = _mm512_setzero_si512();
  for (int q = 0; q < count; ++q) sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(-128), quads[q]);
  return _mm512_sub_epi32(_mm512_setzero_si512(), sum);
}

// Scaled sums of the 16 halves of 8 blocks of one row: scale of the block times the exact integer sum.
[[gnu::always_inline]] inline void half_sums(const std::byte* quants, const std::byte* scales, float* out) {
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i v[4];
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, _mm512_loadu_si512(quants + 64 * i));
  }
  const __m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
  const __m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
  const __m512i sums = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
  // Lane 4 l + i has half 4 i + l.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  const __m512i d = _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales)));
  const __m512 factor = _mm512_castsi512_ps(_mm512_permutexvar_epi32(twice, d));
  _mm512_storeu_ps(out, _mm512_mul_ps(factor, _mm512_cvtepi32_ps(_mm512_permutexvar_epi32(order, sums))));
}

// Adds one block to an output's product. `sums`: of the block (kHalves 1) or of its halves.
template <class F>
[[gnu::always_inline]] inline __m512 fold(__m512 product, const __m512i* integers, const float* scales,
                                          const float* mins, int64_t stride, __m512 scale_x, const std::byte* sums) {
  if constexpr (F::kHalves == 1) {
    const __m512 scale = _mm512_mul_ps(_mm512_load_ps(scales), scale_x);
    product = _mm512_fmadd_ps(_mm512_cvtepi32_ps(integers[0]), scale, product);
  } else {
    __m512 part = _mm512_mul_ps(_mm512_cvtepi32_ps(integers[1]), _mm512_load_ps(scales + stride));
    part = _mm512_fmadd_ps(_mm512_cvtepi32_ps(integers[0]), _mm512_load_ps(scales), part);
    product = _mm512_fmadd_ps(part, scale_x, product);
  }
  if constexpr (F::kMins) {
    for (int h = 0; h < F::kHalves; ++h) {
      product = _mm512_fnmadd_ps(_mm512_load_ps(mins + h * stride), broadcast(sums + 4 * h), product);
    }
  }
  return product;
}

// One block of activations of some rows, `stride` bytes apart; the sums (of the block, or of its halves) have their
// own.
struct BlockActivations {
  const std::byte* quants;
  const std::byte* scales;
  int64_t stride;
  const std::byte* sums;
  int64_t sums_stride;
};

// The integer start values of a block: one for each scale.
template <class F>
[[gnu::always_inline]] inline void start_values(const Quads& w, __m512i (&start)[F::kHalves]) {
  constexpr int kPart = kQuads / F::kHalves;
  for (int h = 0; h < F::kHalves; ++h) {
    start[h] = F::kSigned ? start_value(w.q + h * kPart, kPart) : _mm512_setzero_si512();
  }
}

// One block of one panel added to the product of one column.
template <class F>
[[gnu::always_inline]] inline __m512 add_block(__m512 product, int64_t column, const Quads& w,
                                               const __m512i (&start)[F::kHalves], const float* scales,
                                               const float* mins, const BlockActivations& x) {
  constexpr int kPart = kQuads / F::kHalves;
  __m512i integers[F::kHalves];
  for (int h = 0; h < F::kHalves; ++h) {
    __m512i sum = start[h];
    for (int q = h * kPart; q < (h + 1) * kPart; ++q) {
      sum = dot<F::kSigned>(sum, w.q[q], activations<F::kSigned>(x.quants + column * x.stride + 4 * q));
    }
    integers[h] = sum;
  }
  return fold<F>(product, integers, scales, mins, kLanes, broadcast(x.scales + column * x.stride),
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
  __m512 one = _mm512_setzero_ps();
  for (int64_t c = 0; c < columns; ++c) _mm512_store_ps(out + c * out_stride, one);
  for (int64_t g = 0; g < groups; ++g) {
    const std::byte* x = tile.x + g * F::kBlocks * kBlock;
    const std::byte* xs = tile.x + layout.scales + g * F::kBlocks * 4;
    const std::byte* xm = tile.x + layout.sums + g * F::kBlocks * 4;
    alignas(64) float halves[kStreamColumns][16];
    if constexpr (F::kMins && F::kHalves == 2) {
      for (int64_t c = 0; c < columns; ++c) half_sums(x + c * tile.x_stride, xs + c * tile.x_stride, halves[c]);
    }
    const auto* group = reinterpret_cast<const uint8_t*>(panel) + g * F::kGroupBytes;
    alignas(64) float scales[kScales * kLanes];
    alignas(64) float mins[kScales * kLanes];
    F::scales(group, scales, mins, kLanes);
    for (int b = 0; b < F::kBlocks; ++b) {
      if constexpr (!kOne) {
        for (int i = 0; i < kBlockBytes; i += 64) __builtin_prefetch(group + kPrefetchBytes + b * kBlockBytes + i);
      }
      Quads w;
      F::quads(group, b, w);
      BlockActivations block{x + b * kBlock, xs + 4 * b, tile.x_stride, xm + 4 * b, tile.x_stride};
      if constexpr (F::kHalves == 2) {
        block.sums = reinterpret_cast<const std::byte*>(halves[0] + 2 * b);
        block.sums_stride = sizeof(halves[0]);
      }
      __m512i start[F::kHalves];
      start_values<F>(w, start);
      const float* block_scales = scales + b * F::kHalves * kLanes;
      const float* block_mins = mins + b * F::kHalves * kLanes;
      if constexpr (kOne) {
        one = add_block<F>(one, 0, w, start, block_scales, block_mins, block);
      } else {
        for (int64_t c = 0; c < columns; ++c) {
          float* sums = out + c * out_stride;
          _mm512_store_ps(sums, add_block<F>(_mm512_load_ps(sums), c, w, start, block_scales, block_mins, block));
        }
      }
    }
  }
  if constexpr (kOne) _mm512_store_ps(out, one);
}

// kTileBlocks blocks of kPanels panels, unpacked.
template <int kPanels>
struct alignas(64) Unpacked {
  uint8_t quads[kTileBlocks][kQuads][kPanels][64];
  float scales[kTileBlocks * 2][kPanels][kLanes];
  float mins[kTileBlocks * 2][kPanels][kLanes];
  int32_t starts[kTileBlocks * 2][kPanels][kLanes];
};

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
                                          Unpacked<kPanels>& out) {
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
        for (int q = 0; q < kQuads; ++q) _mm512_store_si512(out.quads[at + b][q][p], w.q[q]);
        if constexpr (F::kSigned) {
          for (int h = 0; h < F::kHalves; ++h) {
            _mm512_store_si512(out.starts[slot + b * F::kHalves + h][p], start_value(w.q + h * kPart, kPart));
          }
        }
      }
    }
  }
}

// Whether a sweep turns its activations to x + 128 once rather than with each broadcast: worth 5% to formats of two
// scales a block, whose sweeps have fewer columns, and costs the others 5% (measured on Zen 4).
template <class F>
constexpr bool kOffsetOnce = F::kSigned && F::kHalves == 2;

// Activations of the blocks of a tile as signed formats read them.
struct alignas(64) OffsetActivations {
  std::byte quants[kTileBlocks * kBlock];
};

[[gnu::always_inline]] inline void offset_activations(const std::byte* x, int64_t blocks, OffsetActivations& out) {
  for (int64_t b = 0; b < blocks; ++b) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + b * kBlock));
    _mm256_store_si256(reinterpret_cast<__m256i*>(out.quants + b * kBlock),
                       _mm256_xor_si256(v, _mm256_set1_epi8(-128)));
  }
}

// Adds the unpacked blocks times kColumns rows of activations to `products` (rows of kPanels * 16, products_stride
// floats apart); x, xs and xm are at the first block's quants, scales and sums of the first row.
template <class F, int kPanels, int kColumns>
[[gnu::noinline]] void sweep(const Unpacked<kPanels>& w, int64_t blocks, const std::byte* x, const std::byte* xs,
                             const std::byte* xm, int64_t x_stride, float* products, int64_t products_stride) {
  constexpr int kPart = kQuads / F::kHalves;
  __m512 sums[kColumns][kPanels];
  for (int c = 0; c < kColumns; ++c) {
    for (int p = 0; p < kPanels; ++p) sums[c][p] = _mm512_load_ps(products + c * products_stride + p * kLanes);
  }
  alignas(64) float halves[kColumns][16];
  if constexpr (F::kMins && F::kHalves == 2) {
    for (int c = 0; c < kColumns; ++c) half_sums(x + c * x_stride, xs + c * x_stride, halves[c]);
  }
  [[maybe_unused]] OffsetActivations offset[kOffsetOnce<F> ? kColumns : 1];
  const std::byte* quants = x;
  int64_t quants_stride = x_stride;
  if constexpr (kOffsetOnce<F>) {
    for (int c = 0; c < kColumns; ++c) offset_activations(x + c * x_stride, blocks, offset[c]);
    quants = offset[0].quants;
    quants_stride = sizeof(offset[0]);
  }
  for (int64_t b = 0; b < blocks; ++b) {
    __m512i integers[kColumns][kPanels][F::kHalves];
    for (int h = 0; h < F::kHalves; ++h) {
      for (int c = 0; c < kColumns; ++c) {
        for (int p = 0; p < kPanels; ++p) {
          integers[c][p][h] = F::kSigned ? _mm512_load_si512(w.starts[b * F::kHalves + h][p]) : _mm512_setzero_si512();
        }
      }
#pragma GCC unroll 8
      for (int q = 0; q < kPart; ++q) {
        __m512i quads[kPanels];
        for (int p = 0; p < kPanels; ++p) quads[p] = _mm512_load_si512(w.quads[b][h * kPart + q][p]);
#pragma GCC unroll 8
        for (int c = 0; c < kColumns; ++c) {
          const __m512i a = activations < F::kSigned &&
                            !kOffsetOnce < F >> (quants + c * quants_stride + b * kBlock + 4 * (h * kPart + q));
          for (int p = 0; p < kPanels; ++p) integers[c][p][h] = dot<F::kSigned>(integers[c][p][h], quads[p], a);
        }
      }
    }
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      const std::byte* block_sums = xm + c * x_stride + 4 * b;
      if constexpr (F::kHalves == 2) block_sums = reinterpret_cast<const std::byte*>(halves[c] + 2 * b);
      const __m512 scale_x = broadcast(xs + c * x_stride + 4 * b);
      for (int p = 0; p < kPanels; ++p) {
        sums[c][p] = fold<F>(sums[c][p], integers[c][p], w.scales[b * F::kHalves][p], w.mins[b * F::kHalves][p],
                             kPanels * kLanes, scale_x, block_sums);
      }
    }
  }
  for (int c = 0; c < kColumns; ++c) {
    for (int p = 0; p < kPanels; ++p) _mm512_store_ps(products + c * products_stride + p * kLanes, sums[c][p]);
  }
}

// Columns a sweep: as many as 32 registers hold with the sums of kPanels panels.
template <class F>
constexpr int kSweepColumns = F::kHalves == 1 ? 6 : 4;

// Columns of the next sweep, of `left`: full sweeps, the last two of equal size.
[[gnu::always_inline]] inline int64_t next_columns(int64_t left, int64_t step) {
  if (left <= step) return left;
  return left < 2 * step ? (left + 1) / 2 : step;
}

template <class F, int kPanels, int kColumns>
[[gnu::always_inline]] inline void sweep_columns(int64_t columns, const Unpacked<kPanels>& w, int64_t blocks,
                                                 const std::byte* x, const std::byte* xs, const std::byte* xm,
                                                 int64_t x_stride, float* products, int64_t products_stride) {
  if constexpr (kColumns > 0) {
    if (columns == kColumns) {
      return sweep<F, kPanels, kColumns>(w, blocks, x, xs, xm, x_stride, products, products_stride);
    }
    sweep_columns<F, kPanels, kColumns - 1>(columns, w, blocks, x, xs, xm, x_stride, products, products_stride);
  }
}

#if defined(__AMX_INT8__)
constexpr int kTileColumns = 16;

// What was written is in memory: g++ 12 does not know what its tile loads read.
[[gnu::always_inline]] inline void in_memory() {
  asm volatile("" ::: "memory");
}

// The shapes of the tiles while it lives, on its thread. 0: a block of 16 rows of activations; 2 and 3: the quads of a
// panel for it; 4 to 7: sums of 16 columns and 16 rows.
class TileShapes {
 public:
  TileShapes() {
    amx::TileConfig config;
    for (int t = 0; t < 8; ++t) {
      config.row_bytes[t] = static_cast<uint16_t>(t == 0 ? kBlock : 64);
      config.rows[t] = static_cast<uint8_t>(t == 2 || t == 3 ? kQuads : kTileColumns);
    }
    in_memory();
    _tile_loadconfig(&config);
  }
  ~TileShapes() { _tile_release(); }
  TileShapes(const TileShapes&) = delete;
  TileShapes& operator=(const TileShapes&) = delete;
};

// The integer sums of a block: of each panel, a row of lanes a column.
template <int kPanels>
struct alignas(64) BlockSums {
  int32_t lanes[kPanels][kTileColumns][kLanes];
};

// The sums of a block, in other tiles than those of the block before. A tile's name is part of the instruction: a
// digit.
template <int kPanels, bool kOdd>
[[gnu::always_inline]] inline void block_tiles(const Unpacked<kPanels>& w, int64_t block, const std::byte* x,
                                               int64_t x_stride, BlockSums<kPanels>& out) {
  constexpr int kStride = kPanels * 64;
  _tile_loadd(0, x, x_stride);
  _tile_loadd(2, w.quads[block][0][0], kStride);
  if constexpr (kOdd) {
    _tile_zero(6);
    _tile_dpbssd(6, 0, 2);
    _tile_stored(6, out.lanes[0], 64);
  } else {
    _tile_zero(4);
    _tile_dpbssd(4, 0, 2);
    _tile_stored(4, out.lanes[0], 64);
  }
  if constexpr (kPanels == 2) {
    _tile_loadd(3, w.quads[block][0][1], kStride);
    if constexpr (kOdd) {
      _tile_zero(7);
      _tile_dpbssd(7, 0, 3);
      _tile_stored(7, out.lanes[1], 64);
    } else {
      _tile_zero(5);
      _tile_dpbssd(5, 0, 3);
      _tile_stored(5, out.lanes[1], 64);
    }
  }
}

// As sweep, for kTileColumns rows of activations and formats of one scale a block. The tiles of a block run while the
// one before is added.
template <class F, int kPanels>
[[gnu::noinline]] void sweep_tiles(const Unpacked<kPanels>& w, int64_t blocks, const std::byte* x, const std::byte* xs,
                                   const std::byte* xm, int64_t x_stride, float* products, int64_t products_stride) {
  static_assert(F::kHalves == 1);
  BlockSums<kPanels> sums[2];
  in_memory();
  block_tiles<kPanels, false>(w, 0, x, x_stride, sums[0]);
  for (int64_t b = 0; b < blocks; ++b) {
    const std::byte* next = x + (b + 1) * kBlock;
    if (b + 1 < blocks && b % 2 == 0) block_tiles<kPanels, true>(w, b + 1, next, x_stride, sums[1]);
    if (b + 1 < blocks && b % 2 == 1) block_tiles<kPanels, false>(w, b + 1, next, x_stride, sums[0]);
    for (int c = 0; c < kTileColumns; ++c) {
      const __m512 scale_x = broadcast(xs + c * x_stride + 4 * b);
      for (int p = 0; p < kPanels; ++p) {
        const __m512i integers[] = {_mm512_load_si512(sums[b % 2].lanes[p][c])};
        float* product = products + c * products_stride + p * kLanes;
        _mm512_store_ps(product, fold<F>(_mm512_load_ps(product), integers, w.scales[b][p], w.mins[b][p],
                                         kPanels * kLanes, scale_x, xm + c * x_stride + 4 * b));
      }
    }
  }
}
#endif

// Many columns: kPanels panels are unpacked once for all of them.
template <class F, int kPanels>
void sweep_panels(const LinearTile& tile) {
  const RowLayout layout = row_layout(tile.k);
  const int64_t blocks = tile.k / kBlock;
  const int64_t products_stride = tile.panels_count * kLanes;
  for (int64_t c = 0; c < tile.columns; ++c) {
    for (int p = 0; p < kPanels; ++p) {
      _mm512_store_ps(tile.products + c * products_stride + p * kLanes, _mm512_setzero_ps());
    }
  }
  Unpacked<kPanels> w;
  for (int64_t first = 0; first < blocks; first += kTileBlocks) {
    const int64_t count = blocks - first < kTileBlocks ? blocks - first : kTileBlocks;
    unpack<F, kPanels>(tile, first, count, w);
    int64_t c = 0;
#if defined(__AMX_INT8__)
    for (; tile.columns - c >= kTileColumns; c += kTileColumns) {
      const std::byte* row = tile.x + c * tile.x_stride;
      sweep_tiles<F, kPanels>(w, count, row + first * kBlock, row + layout.scales + first * 4,
                              row + layout.sums + first * 4, tile.x_stride, tile.products + c * products_stride,
                              products_stride);
    }
#endif
    while (c < tile.columns) {
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
#if defined(__AMX_INT8__)
  const TileShapes shapes;
#endif
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
  if (tile.columns > kStreamColumns) return sweep_all<F>(tile);
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
}  // namespace minfer::cpu::avx512
