// The AVX2 tile of a quantized linear: see launch/linear_kernels.hpp. Only for the sources in this folder; each
// instantiates it for some formats.
//
// One 32-bit lane a row of the weight, 8 rows a panel. For each sub-block of 32 along k, in order, an output does
//   i  = exact integer sum of quants x activations
//   p += float(i) * (scale_w * scale_x)
//   p -= min_w * sum_x                                       types with minima
// and types whose scales are integers (kScaled; a group of 8 sub-blocks has a factor d for them, and dmin for minima)
//   i  = exact integer sum of quants x activations x scale   one scale, or one for each half
//   g += float(i) * scale_x
//   m += min_w * sum_x
// and at the end of the group p += d * g, p -= dmin * m; nothing else, in `stream` as in `sweep`: so its bits depend on
// nothing around it.
//
// The integer sum: vpmaddubsw multiplies unsigned by signed bytes and adds two products in 16 bits, saturating; as many
// of these as a format's range allows (kDepth) are added in 16 bits, then vpmaddwd widens them, with ones or with the
// scale. Which side is unsigned (Sign): plain quants are; for `offset` the activations, as x + 128, and 128 times the
// sum of the quants is taken off in 16 bits, where the sum may wrap around on the way as the result fits.
// `wide` quants do not fit: few columns take |quant| times the activation with the quant's sign, many columns multiply
// in 16 bits (vpmaddwd alone), quants and activations widened once.
// Compiled for AVX-VNNI (kVnni, the folder avxvnni) vpdpbusd adds four products in 32 bits, whatever the range: wide
// quants are then read as `offset` ones, and 128 times the sum of the quants is the integer sum's start value. The
// integers are the same, and so are the outputs' bits.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "cpu/kernels/avx2/linear_formats.hpp"
#include "cpu/launch/linear_kernels.hpp"

namespace minfer::cpu::avx2 {
namespace {

#if defined(__AVXVNNI__)
constexpr bool kVnni = true;
#else
constexpr bool kVnni = false;
#endif

// How the tile reads a format's quants.
template <class F>
constexpr Sign kSign = kVnni && F::kSign == Sign::wide ? Sign::offset : F::kSign;

constexpr int kLanes = 8;
constexpr int64_t kBlock = 32;   // elements
constexpr int kQuads = 8;        // a block
constexpr int kTileBlocks = 16;  // blocks unpacked at once, at most
constexpr int kSweepPanels = 2;
constexpr int64_t kPrefetchBytes = 4096;

// Columns a sweep: as many as 16 registers hold with the integer sums of two panels. Four are better for prompts, whose
// products leave less of L1.
constexpr int kSweepColumns = 6;
constexpr int64_t kPromptSweepColumns = 4;

// Columns that are streamed. In a sweep both panels share a broadcast, and the sums of some columns stay in registers:
// worth its way through memory from here on. Measured on Zen 4.
template <class F>
constexpr int64_t kMostStreamed = kSign<F> == Sign::wide ? kStreamColumns : 5;

// Blocks unpacked at once: twice as many save entries and exits of sweeps, but not where each must turn its activations
// to x + 128 for one scale a block.
template <class F>
constexpr int64_t kTile = kSign<F> == Sign::offset && !F::kScaled ? kTileBlocks / 2 : kTileBlocks;

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

[[gnu::always_inline]] inline __m256i load(const Lanes& from) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(from.bytes));
}
[[gnu::always_inline]] inline __m256 load_floats(const Lanes& from) {
  return _mm256_load_ps(reinterpret_cast<const float*>(from.bytes));
}

[[gnu::always_inline]] inline __m256i broadcast_quad(const std::byte* p) {
  return _mm256_set1_epi32(*reinterpret_cast<const int32_t*>(p));
}

// Products of one quad in 16 bits.
template <Sign kHow>
[[gnu::always_inline]] inline __m256i multiply(__m256i w, __m256i x) {
  if constexpr (kHow == Sign::plain) return _mm256_maddubs_epi16(w, x);
  if constexpr (kHow == Sign::offset) return _mm256_maddubs_epi16(x, w);
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

[[gnu::always_inline]] inline __m256i subtract_words(__m256i a, __m256i b) {
  __m256i difference = _mm256_sub_epi16(a, b);
  asm("" : "+x"(difference));
  return difference;
}

#if defined(__AVXVNNI__)
// Products of one quad added in 32 bits.
template <Sign kHow>
[[gnu::always_inline]] inline __m256i dot(__m256i sum, __m256i w, __m256i x) {
  return kHow == Sign::plain ? _mm256_dpbusd_avx_epi32(sum, w, x) : _mm256_dpbusd_avx_epi32(sum, x, w);
}
#endif

// 128 times the sum of the quants of kCount quads, in 16 bits: what is taken off from the sum of an `offset` format.
// The quants of so many quads, of -16 ... 15 (8 quads) or -32 ... 31 (4) at most, add up in 8 bits. With kVnni -128
// times the sum, in 32 bits: the start value.
template <int kCount>
[[gnu::always_inline]] inline __m256i offset_value(const __m256i* quads) {
#if defined(__AVXVNNI__)
  __m256i start = _mm256_setzero_si256();
  for (int q = 0; q < kCount; ++q) start = dot<Sign::offset>(start, quads[q], _mm256_set1_epi8(-128));
  return _mm256_sub_epi32(_mm256_setzero_si256(), start);
#else
  __m256i sum = quads[0];
  for (int q = 1; q < kCount; ++q) sum = _mm256_add_epi8(sum, quads[q]);
  return _mm256_maddubs_epi16(_mm256_set1_epi8(-128), sum);
#endif
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

// The sums of a group of a kScaled format for one output, before its factors.
struct GroupSums {
  __m256 products;
  __m256 mins;
};

// Adds a group to an output's product.
template <class F>
[[gnu::always_inline]] inline __m256 close_group(__m256 product, const GroupSums& sums, __m256 d, __m256 dmin) {
  product = _mm256_fmadd_ps(d, sums.products, product);
  if constexpr (F::kMins) product = _mm256_fnmadd_ps(dmin, sums.mins, product);
  return product;
}

// Adds one block of a format that is not kScaled to an output's product.
template <class F>
[[gnu::always_inline]] inline __m256 fold(__m256 product, __m256i integers, const Lanes& scale, const Lanes& min,
                                          __m256 scale_x, const std::byte* sum_x) {
  product = _mm256_fmadd_ps(_mm256_cvtepi32_ps(integers), _mm256_mul_ps(load_floats(scale), scale_x), product);
  if constexpr (F::kMins) product = _mm256_fnmadd_ps(load_floats(min), broadcast(sum_x), product);
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

// One row's activations of some blocks as `offset` formats read them: an exclusive or for 8 quads, where one with each
// broadcast would cost an eighth of the time.
struct OffsetActivations {
  Lanes blocks[kTileBlocks];
};

[[gnu::always_inline]] inline void offset_activations(const std::byte* x, int64_t blocks, OffsetActivations& out) {
  for (int64_t b = 0; b < blocks; ++b) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + b * kBlock));
    store(out.blocks[b], _mm256_xor_si256(v, _mm256_set1_epi8(-128)));
  }
}

// Sums in 16 bits as integers: times the scale of kScaled formats.
template <class F>
[[gnu::always_inline]] inline __m256i close_words(__m256i words, const Lanes& scale) {
  if constexpr (F::kScaled) return _mm256_madd_epi16(words, load(scale));
  return widen(words);
}

#if defined(__AVXVNNI__)
// A sum in 32 bits, times the scale of kScaled formats.
template <class F>
[[gnu::always_inline]] inline __m256i close_integers(__m256i integers, const Lanes& scale) {
  if constexpr (F::kScaled) return _mm256_mullo_epi32(integers, load(scale));
  return integers;
}
#endif

// What is taken off from the sums of a block: one for each scale.
template <class F>
[[gnu::always_inline]] inline void offset_values(const Quads& w, __m256i (&offset)[F::kHalves]) {
  constexpr int kPart = kQuads / F::kHalves;
  for (int h = 0; h < F::kHalves; ++h) {
    offset[h] = _mm256_setzero_si256();
    if constexpr (kSign<F> == Sign::offset) offset[h] = offset_value<kPart>(w.q + h * kPart);
  }
}

// The integer sums of one block of one panel for one column. `scales`: the block's, `x`: its quants.
template <class F>
[[gnu::always_inline]] inline __m256i block_integers(const Quads& w, const __m256i (&offset)[F::kHalves],
                                                     const Lanes* scales, const std::byte* x) {
  constexpr int kPart = kQuads / F::kHalves;
  __m256i integers = _mm256_setzero_si256();
#if defined(__AVXVNNI__)
#pragma GCC unroll 2
  for (int h = 0; h < F::kHalves; ++h) {
    __m256i sum = offset[h];
#pragma GCC unroll 8
    for (int q = h * kPart; q < (h + 1) * kPart; ++q) sum = dot<kSign<F>>(sum, w.q[q], broadcast_quad(x + 4 * q));
    const __m256i closed = close_integers<F>(sum, scales[h]);
    integers = h == 0 ? closed : _mm256_add_epi32(integers, closed);
  }
#else
#pragma GCC unroll 2
  for (int h = 0; h < F::kHalves; ++h) {
#pragma GCC unroll 8
    for (int part = h * kPart; part < (h + 1) * kPart; part += F::kDepth) {
      __m256i words = _mm256_setzero_si256();
#pragma GCC unroll 8
      for (int q = part; q < part + F::kDepth; ++q) {
        const __m256i product = multiply<kSign<F>>(w.q[q], broadcast_quad(x + 4 * q));
        words = q == part ? product : add_words(words, product);
      }
      if constexpr (kSign<F> == Sign::offset) words = subtract_words(words, offset[h]);
      const __m256i closed = close_words<F>(words, scales[h]);
      integers = part == 0 ? closed : _mm256_add_epi32(integers, closed);
    }
  }
#endif
  return integers;
}

// The minima of one block for one column. `sum_x`: that of the block, or of each half.
template <class F>
[[gnu::always_inline]] inline __m256 add_mins(__m256 sum, const Lanes* mins, int64_t stride, const std::byte* sum_x) {
  for (int h = 0; h < F::kHalves; ++h) {
    sum = _mm256_fmadd_ps(load_floats(mins[h * stride]), broadcast(sum_x + 4 * h), sum);
  }
  return sum;
}

// What a group of a panel has beside its quants.
template <class F>
struct GroupScales {
  Lanes scales[F::kBlocks * F::kHalves];
  Lanes mins[F::kBlocks * F::kHalves];
};

// The activations of a group for the columns that are streamed, as the format reads them.
template <class F, int64_t kColumns>
struct GroupActivations {
  static constexpr bool kHalfSums = F::kMins && F::kHalves == 2;
  OffsetActivations offset[kSign<F> == Sign::offset ? kColumns : 1];
  alignas(32) float halves[kHalfSums ? kColumns : 1][16];

  // At the group's first quants, scales and sums of the first of `columns` rows.
  [[gnu::always_inline]] BlockActivations prepare(int64_t columns, const std::byte* x, const std::byte* xs,
                                                  const std::byte* xm, int64_t stride) {
    BlockActivations block{x, xs, stride, stride, xm, stride};
    if constexpr (kSign<F> == Sign::offset) {
      for (int64_t c = 0; c < columns; ++c) offset_activations(x + c * stride, F::kBlocks, offset[c]);
      block.quants = offset[0].blocks[0].bytes;
      block.quants_stride = sizeof(offset[0]);
    }
    if constexpr (kHalfSums) {
      for (int64_t c = 0; c < columns; ++c) half_sums(x + c * stride, xs + c * stride, halves[c]);
      block.sums = reinterpret_cast<const std::byte*>(halves[0]);
      block.sums_stride = sizeof(halves[0]);
    }
    return block;
  }
};

// Few columns: one panel, weights unpacked in registers, once for all columns, which follow each other: the processor
// overlaps them by itself. Their sums along k lie in `out`, in L1; that of a single column (kOne) in a register, as
// nothing covers its way through memory. A thread reads one stream of addresses: reading groups of four panels in turns
// halves the rate on Zen 4, whose prefetcher then starts anew with each group. With several columns it falls behind, so
// the kernel asks for what it reads kPrefetchBytes later: a block's share with each block, as a whole group at once
// finds no free buffers.
template <class F, bool kOne>
void stream(const LinearTile& tile, const std::byte* panel, float* out, int64_t out_stride) {
  constexpr int kBlockBytes = F::kGroupBytes / F::kBlocks;
  constexpr int64_t kColumns = kOne ? 1 : kMostStreamed<F>;
  const int64_t columns = kOne ? 1 : tile.columns;
  const RowLayout layout = row_layout(tile.k);
  const int64_t groups = tile.k / (kBlock * F::kBlocks);
  __m256 products[kColumns];
  for (int64_t c = 0; c < columns; ++c) products[c] = _mm256_setzero_ps();
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t at = g * F::kBlocks;
    GroupActivations<F, kColumns> activations;
    BlockActivations x = activations.prepare(columns, tile.x + at * kBlock, tile.x + layout.scales + 4 * at,
                                             tile.x + layout.sums + 4 * at, tile.x_stride);
    const auto* group = reinterpret_cast<const uint8_t*>(panel) + g * F::kGroupBytes;
    GroupScales<F> group_scales;
    F::scales(group, group_scales.scales, group_scales.mins, 1);
    GroupSums sums[kColumns];
    for (int64_t c = 0; c < columns; ++c) sums[c] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int b = 0; b < F::kBlocks; ++b) {
      if constexpr (!kOne) {
        for (int i = 0; i < kBlockBytes; i += 64) __builtin_prefetch(group + kPrefetchBytes + b * kBlockBytes + i);
      }
      Quads w;
      F::quads(group, b, w);
      __m256i offset[F::kHalves];
      offset_values<F>(w, offset);
      const Lanes* scales = group_scales.scales + b * F::kHalves;
      const Lanes* mins = group_scales.mins + b * F::kHalves;
      for (int64_t c = 0; c < columns; ++c) {
        const __m256i integers = block_integers<F>(w, offset, scales, x.quants + c * x.quants_stride);
        const __m256 scale_x = broadcast(x.scales + c * x.scales_stride);
        const std::byte* sum_x = x.sums + c * x.sums_stride;
        if constexpr (F::kScaled) {
          sums[c].products = _mm256_fmadd_ps(_mm256_cvtepi32_ps(integers), scale_x, sums[c].products);
          if constexpr (F::kMins) sums[c].mins = add_mins<F>(sums[c].mins, mins, 1, sum_x);
        } else {
          products[c] = fold<F>(products[c], integers, *scales, *mins, scale_x, sum_x);
        }
      }
      x.quants += kBlock;
      x.scales += 4;
      x.sums += 4 * F::kHalves;
    }
    if constexpr (F::kScaled) {
      const __m256 d = load_halves(group);
      const __m256 dmin = F::kMins ? load_halves(group + 16) : d;
      for (int64_t c = 0; c < columns; ++c) products[c] = close_group<F>(products[c], sums[c], d, dmin);
    }
  }
  for (int64_t c = 0; c < columns; ++c) _mm256_store_ps(out + c * out_stride, products[c]);
}

// kTileBlocks blocks of kPanels panels, unpacked. `wide` quads are two vectors of 16 bits: bytes 0 and 2, bytes 1
// and 3. Of a kScaled format they come with the factors of their groups.
template <class F, int kPanels>
struct alignas(64) Unpacked {
  static constexpr int kParts = kSign<F> == Sign::wide ? 2 : 1;
  static constexpr int kGroups = kTileBlocks / F::kBlocks;
  static_assert(kVnni || kSign<F> != Sign::offset || F::kDepth * F::kHalves == kQuads);
  Lanes quads[kTileBlocks][kQuads][kParts][kPanels];
  Lanes scales[kTileBlocks * F::kHalves][kPanels];
  Lanes mins[kTileBlocks * F::kHalves][kPanels];
  Lanes offsets[kTileBlocks * F::kHalves][kPanels];
  Lanes factors[F::kScaled ? kGroups : 1][kPanels][2];
};

// The bytes 0 and 2, or 1 and 3, of each 4, widened.
[[gnu::always_inline]] inline __m256i even_bytes(__m256i v) {
  return _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8);
}
[[gnu::always_inline]] inline __m256i odd_bytes(__m256i v) {
  return _mm256_srai_epi16(v, 8);
}

// Bytes of a panel in a tile.
template <class F>
constexpr int64_t kTileBytes = kTile<F> / F::kBlocks * F::kGroupBytes;

// What the next unpack reads, asked for while this one and sweeps compute: with each block a few lines of each panel.
// All at once would find no free buffers; the hardware's prefetcher does not follow panels that are read in turns.
struct Ahead {
  const std::byte* at;
  int64_t stride;  // from a panel to the next
  int64_t step;    // of a sweep's block: 64, or 0 when all is asked for
};

// Lines that a sweep asks for with each block, so that two sweeps ask for nearly all.
template <class F>
constexpr int64_t kLinesAsked = F::kGroupBytes / F::kBlocks > 160 ? 2 : 1;

template <class F, int kPanels>
[[gnu::always_inline]] inline void ask(Ahead& ahead) {
  for (int64_t i = 0; i < kLinesAsked<F>; ++i) {
    for (int p = 0; p < kPanels; ++p) __builtin_prefetch(ahead.at + p * ahead.stride);
    ahead.at += ahead.step;
  }
}

// At what follows the tile from block `first`: across the end of a panel, in the next kPanels panels.
template <class F, int kPanels>
[[gnu::always_inline]] inline Ahead next_tile(const LinearTile& tile, int64_t first) {
  int64_t next = first / F::kBlocks * F::kGroupBytes + kTileBytes<F>;
  if (next >= tile.panel_stride) next = kPanels * tile.panel_stride;
  return {tile.panels + next, tile.panel_stride, 64};
}

template <class F, int kPanels>
[[gnu::always_inline]] inline void unpack_block(const uint8_t* group, int b, int64_t block, int p,
                                                Unpacked<F, kPanels>& out) {
  constexpr int kPart = kQuads / F::kHalves;
  Quads w;
  F::quads(group, b, w);
  for (int q = 0; q < kQuads; ++q) {
    if constexpr (kSign<F> == Sign::wide) {
      store(out.quads[block][q][0][p], even_bytes(w.q[q]));
      store(out.quads[block][q][1][p], odd_bytes(w.q[q]));
    } else {
      store(out.quads[block][q][0][p], w.q[q]);
    }
  }
  if constexpr (kSign<F> == Sign::offset) {
    for (int h = 0; h < F::kHalves; ++h) {
      store(out.offsets[block * F::kHalves + h][p], offset_value<kPart>(w.q + h * kPart));
    }
  }
}

// Asks for `lines` lines of each panel with each block.
template <class F, int kPanels>
[[gnu::always_inline]] inline void unpack(const LinearTile& tile, int64_t first_block, int64_t blocks,
                                          const Ahead& ahead, int64_t lines, Unpacked<F, kPanels>& out) {
  for (int64_t at = 0; at < blocks; at += F::kBlocks) {
    for (int p = 0; p < kPanels; ++p) {
      const int64_t offset = (first_block + at) / F::kBlocks * F::kGroupBytes;
      const auto* group = reinterpret_cast<const uint8_t*>(tile.panels) + p * tile.panel_stride + offset;
      const int64_t slot = at * F::kHalves;
      F::scales(group, &out.scales[slot][p], &out.mins[slot][p], kPanels);
      if constexpr (F::kScaled) {
        store(out.factors[at / F::kBlocks][p][0], load_halves(group));
        if constexpr (F::kMins) store(out.factors[at / F::kBlocks][p][1], load_halves(group + 16));
      }
      for (int b = 0; b < F::kBlocks; ++b) {
        const std::byte* ask_at = ahead.at + p * ahead.stride + (at + b) * lines * 64;
        for (int64_t i = 0; i < lines; ++i) __builtin_prefetch(ask_at + 64 * i);
        unpack_block<F, kPanels>(group, b, at + b, p, out);
      }
    }
  }
}

// One row's activations of kTileBlocks blocks in 16 bits, in the order of `wide` quads.
struct WideActivations {
  Lanes parts[2][kTileBlocks];
};

[[gnu::always_inline]] inline void widen_activations(const std::byte* x, int64_t blocks, WideActivations& out) {
  for (int64_t b = 0; b < blocks; ++b) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + b * kBlock));
    store(out.parts[0][b], even_bytes(v));
    store(out.parts[1][b], odd_bytes(v));
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
      for (int p = 0; p < kPanels; ++p) quads[p] = load(w.quads[block][q][part][p]);
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) {
        const __m256i a = broadcast_quad(x[c].parts[part][block].bytes + 4 * q);
        for (int p = 0; p < kPanels; ++p) {
          integers[c][p] = add_integers(integers[c][p], _mm256_madd_epi16(quads[p], a));
        }
      }
    }
  }
}

#if defined(__AVXVNNI__)
// The integer sums of one block for kPanels panels and kColumns columns.
template <class F, int kPanels, int kColumns>
[[gnu::always_inline]] inline void block_sums(const Unpacked<F, kPanels>& w, int64_t block, const std::byte* x,
                                              int64_t x_stride, __m256i (&integers)[kColumns][kPanels]) {
  constexpr int kPart = kQuads / F::kHalves;
#pragma GCC unroll 2
  for (int h = 0; h < F::kHalves; ++h) {
    __m256i sums[kColumns][kPanels];
    for (int c = 0; c < kColumns; ++c) {
      for (int p = 0; p < kPanels; ++p) {
        sums[c][p] = kSign<F> == Sign::plain ? _mm256_setzero_si256() : load(w.offsets[block * F::kHalves + h][p]);
      }
    }
#pragma GCC unroll 8
    for (int q = h * kPart; q < (h + 1) * kPart; ++q) {
      __m256i quads[kPanels];
      for (int p = 0; p < kPanels; ++p) quads[p] = load(w.quads[block][q][0][p]);
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) {
        const __m256i a = broadcast_quad(x + c * x_stride + 4 * q);
        for (int p = 0; p < kPanels; ++p) sums[c][p] = dot<kSign<F>>(sums[c][p], quads[p], a);
      }
    }
    for (int c = 0; c < kColumns; ++c) {
      for (int p = 0; p < kPanels; ++p) {
        const __m256i closed = close_integers<F>(sums[c][p], w.scales[block * F::kHalves + h][p]);
        integers[c][p] = h == 0 ? closed : add_integers(integers[c][p], closed);
      }
    }
  }
}
#else
// The sums in 16 bits of kDepth quads from `first`.
template <class F, int kPanels, int kColumns>
[[gnu::always_inline]] inline void sum_words(const Unpacked<F, kPanels>& w, int64_t block, int first,
                                             const std::byte* x, int64_t x_stride,
                                             __m256i (&words)[kColumns][kPanels]) {
#pragma GCC unroll 8
  for (int q = first; q < first + F::kDepth; ++q) {
    __m256i quads[kPanels];
    for (int p = 0; p < kPanels; ++p) quads[p] = load(w.quads[block][q][0][p]);
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      const __m256i a = broadcast_quad(x + c * x_stride + 4 * q);
      for (int p = 0; p < kPanels; ++p) {
        const __m256i product = multiply<kSign<F>>(quads[p], a);
        if (q > first) {
          words[c][p] = add_words(words[c][p], product);
        } else if constexpr (kSign<F> == Sign::offset) {
          words[c][p] = subtract_words(product, load(w.offsets[block * F::kHalves + first / F::kDepth][p]));
        } else {
          words[c][p] = product;
        }
      }
    }
  }
}

// The integer sums of one block for kPanels panels and kColumns columns.
template <class F, int kPanels, int kColumns>
[[gnu::always_inline]] inline void block_sums(const Unpacked<F, kPanels>& w, int64_t block, const std::byte* x,
                                              int64_t x_stride, __m256i (&integers)[kColumns][kPanels]) {
#pragma GCC unroll 8
  for (int first = 0; first < kQuads; first += F::kDepth) {
    const int h = first * F::kHalves / kQuads;
    __m256i words[kColumns][kPanels];
    sum_words<F, kPanels, kColumns>(w, block, first, x, x_stride, words);
    for (int c = 0; c < kColumns; ++c) {
      for (int p = 0; p < kPanels; ++p) {
        const __m256i closed = close_words<F>(words[c][p], w.scales[block * F::kHalves + h][p]);
        integers[c][p] = first == 0 ? closed : add_integers(integers[c][p], closed);
      }
    }
  }
}
#endif

// Adds a group of a kScaled format to the products: `sums` are those of its blocks, sums_x those of the activations of
// the first column's blocks, or of their halves.
template <class F, int kPanels, int kColumns>
[[gnu::always_inline]] inline void close_groups(const Unpacked<F, kPanels>& w, int64_t group,
                                                const Lanes (&sums)[kColumns][kPanels], const std::byte* sums_x,
                                                int64_t sums_stride, float* products, int64_t products_stride) {
  __m256 mins[kColumns][kPanels];
  for (int c = 0; c < kColumns; ++c) {
    for (int p = 0; p < kPanels; ++p) mins[c][p] = _mm256_setzero_ps();
  }
  if constexpr (F::kMins) {
    const Lanes(*group_mins)[kPanels] = w.mins + group * F::kBlocks * F::kHalves;
    for (int i = 0; i < F::kBlocks * F::kHalves; ++i) {
      for (int c = 0; c < kColumns; ++c) {
        const __m256 sum_x = broadcast(sums_x + c * sums_stride + 4 * i);
        for (int p = 0; p < kPanels; ++p) {
          mins[c][p] = _mm256_fmadd_ps(load_floats(group_mins[i][p]), sum_x, mins[c][p]);
        }
      }
    }
  }
  for (int c = 0; c < kColumns; ++c) {
    for (int p = 0; p < kPanels; ++p) {
      float* out = products + c * products_stride + p * kLanes;
      const Lanes(&factors)[2] = w.factors[group][p];
      _mm256_store_ps(out, close_group<F>(_mm256_load_ps(out), {load_floats(sums[c][p]), mins[c][p]},
                                          load_floats(factors[0]), load_floats(factors[1])));
    }
  }
}

// Activations of a sweep: at the first block's quants, scales and sums of the first of its rows.
struct SweepActivations {
  const std::byte* quants;
  const std::byte* scales;
  const std::byte* sums;
  int64_t stride;
};

// Adds the unpacked blocks times kColumns rows of activations to `products` (rows of kPanels * 8, products_stride
// floats apart). 16 registers do not hold the sums along k too: they stay in memory, in L1.
template <class F, int kPanels, int kColumns>
[[gnu::noinline]] void sweep(const Unpacked<F, kPanels>& w, int64_t blocks, const SweepActivations& x, float* products,
                             int64_t products_stride, Ahead ahead) {
  constexpr bool kHalfSums = F::kMins && F::kHalves == 2;
  constexpr int64_t kRun = F::kScaled ? F::kBlocks : kTileBlocks;
  const int64_t stride = x.stride;
  [[maybe_unused]] WideActivations wide[kSign<F> == Sign::wide ? kColumns : 1];
  [[maybe_unused]] OffsetActivations offset[kSign<F> == Sign::offset ? kColumns : 1];
  for (int c = 0; c < kColumns; ++c) {
    if constexpr (kSign<F> == Sign::wide) widen_activations(x.quants + c * stride, blocks, wide[c]);
    if constexpr (kSign<F> == Sign::offset) offset_activations(x.quants + c * stride, blocks, offset[c]);
  }
  const std::byte* quants = kSign<F> == Sign::offset ? offset[0].blocks[0].bytes : x.quants;
  const int64_t quants_stride = kSign<F> == Sign::offset ? int64_t{sizeof(offset[0])} : stride;
  const std::byte* scales = x.scales;
  for (int64_t first = 0; first < blocks; first += kRun) {
    const int64_t last = blocks - first < kRun ? blocks : first + kRun;
    Lanes sums[kColumns][kPanels];
    for (int c = 0; c < kColumns; ++c) {
      for (int p = 0; p < kPanels; ++p) {
        const float* out = products + c * products_stride + p * kLanes;
        store(sums[c][p], F::kScaled ? _mm256_setzero_ps() : _mm256_load_ps(out));
      }
    }
    for (int64_t b = first; b < last; ++b) {
      ask<F, kPanels>(ahead);
      __m256i integers[kColumns][kPanels];
      if constexpr (kSign<F> == Sign::wide) {
        block_sums_wide<F, kPanels, kColumns>(w, b, wide, integers);
      } else {
        block_sums<F, kPanels, kColumns>(w, b, quants + b * kBlock, quants_stride, integers);
      }
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) {
        const __m256 scale_x = broadcast(scales + c * stride + 4 * b);
        for (int p = 0; p < kPanels; ++p) {
          __m256 sum = load_floats(sums[c][p]);
          if constexpr (F::kScaled) {
            sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(integers[c][p]), scale_x, sum);
          } else {
            sum = fold<F>(sum, integers[c][p], w.scales[b][p], w.mins[b][p], scale_x, x.sums + c * stride + 4 * b);
          }
          store(sums[c][p], sum);
        }
      }
    }
    if constexpr (F::kScaled) {
      alignas(32) float halves[kHalfSums ? kColumns : 1][16];
      const std::byte* sums_x = x.sums + 4 * first;
      if constexpr (kHalfSums) {
        for (int c = 0; c < kColumns; ++c) {
          half_sums(x.quants + c * stride + first * kBlock, scales + c * stride + 4 * first, halves[c]);
        }
        sums_x = reinterpret_cast<const std::byte*>(halves[0]);
      }
      close_groups<F, kPanels, kColumns>(w, first / F::kBlocks, sums, sums_x,
                                         kHalfSums ? int64_t{sizeof(halves[0])} : stride, products, products_stride);
    } else {
      for (int c = 0; c < kColumns; ++c) {
        for (int p = 0; p < kPanels; ++p) {
          _mm256_store_ps(products + c * products_stride + p * kLanes, load_floats(sums[c][p]));
        }
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
                                                 const SweepActivations& x, float* products, int64_t products_stride,
                                                 const Ahead& ahead) {
  if constexpr (kColumns > 0) {
    if (columns == kColumns) return sweep<F, kPanels, kColumns>(w, blocks, x, products, products_stride, ahead);
    sweep_columns<F, kPanels, kColumns - 1>(columns, w, blocks, x, products, products_stride, ahead);
  }
}

// Many columns: kPanels panels are unpacked once for all of them.
template <class F, int kPanels>
void sweep_panels(const LinearTile& tile) {
  const RowLayout layout = row_layout(tile.k);
  const int64_t blocks = tile.k / kBlock;
  const int64_t products_stride = tile.panels_count * kLanes;
  const int64_t step = tile.columns > kStreamColumns ? kPromptSweepColumns : kSweepColumns;
  const int64_t sweeps = (tile.columns + step - 1) / step;
  for (int64_t c = 0; c < tile.columns; ++c) {
    for (int p = 0; p < kPanels; ++p) {
      _mm256_store_ps(tile.products + c * products_stride + p * kLanes, _mm256_setzero_ps());
    }
  }
  Unpacked<F, kPanels> w;
  for (int64_t first = 0; first < blocks; first += kTile<F>) {
    const int64_t count = blocks - first < kTile<F> ? blocks - first : kTile<F>;
    Ahead ahead = next_tile<F, kPanels>(tile, first);
    const std::byte* end = ahead.at + kTileBytes<F>;
    // What the sweeps do not ask for.
    const int64_t early = kTileBytes<F> / 64 - sweeps * kLinesAsked<F> * count;
    const int64_t lines = early > 0 ? (early + count - 1) / count : 0;
    unpack<F, kPanels>(tile, first, count, ahead, lines, w);
    ahead.at += 64 * lines * count;
    for (int64_t c = 0; c < tile.columns;) {
      const int64_t columns = next_columns(tile.columns - c, step);
      const std::byte* row = tile.x + c * tile.x_stride;
      const SweepActivations x{row + first * kBlock, row + layout.scales + first * 4, row + layout.sums + first * 4,
                               tile.x_stride};
      sweep_columns<F, kPanels, kSweepColumns>(columns, w, count, x, tile.products + c * products_stride,
                                               products_stride, ahead);
      ahead.at += ahead.step * kLinesAsked<F> * count;
      if (ahead.at >= end) ahead.step = 0;
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
