// The AVX-512 linear kernel of BF16: activations are rounded to bfloat16 too, which doubles the rate of a prompt
// (vdpbf16ps does two products a lane; fp32 FMA one), and an output is one chain of vdpbf16ps along k, two elements a
// step, in order, in `stream` as in `sweep`. Products are exact, sums are rounded to f32, subnormal numbers count as
// zero. An odd last element stands with a zero. Panels of 16 rows, element k of the rows at k * 16: a step's two
// elements are one load, their halves interleaved by a permutation.
#include <immintrin.h>

#include <cstdint>

#include "cpu/kernels/avx512/linear_families.hpp"

namespace minfer::cpu::avx512 {
namespace {

constexpr int kLanes = 16;
constexpr int kStreamPanels = 4;  // sums in registers, enough to hide the latency of an addition
constexpr int kSweepPanels = 2;
constexpr int kSweepColumns = 6;
constexpr int64_t kElementBytes = 2;
constexpr int64_t kPairBytes = 2 * kLanes * kElementBytes;
constexpr int64_t kTilePairs = 64;  // unpacked at once: 8 KB
constexpr int64_t kStreamPairs = 256;

// Pairs of elements of one row of activations, rounded.
template <int64_t kPairs>
struct alignas(64) RoundedRow {
  uint32_t pairs[kPairs];
};

// Rounds `count` elements of a row; what is left of the last pair is 0.
template <int64_t kPairs>
[[gnu::always_inline]] inline void round_row(const std::byte* x, int64_t count, RoundedRow<kPairs>& out) {
  constexpr int64_t kStep = 2 * kLanes;
  const float* from = reinterpret_cast<const float*>(x);
  for (int64_t i = 0; i < count; i += kStep) {
    const int64_t left = count - i;
    const auto mask = [&](int64_t first) {
      const int64_t lanes = left - first;
      return static_cast<__mmask16>(lanes >= kLanes ? 0xFFFFU : lanes <= 0 ? 0U : (1U << lanes) - 1U);
    };
    const __m512 low = _mm512_maskz_loadu_ps(mask(0), from + i);
    const __m512 high = _mm512_maskz_loadu_ps(mask(kLanes), from + i + kLanes);
    const __m512bh rounded = _mm512_cvtne2ps_pbh(high, low);
    __builtin_memcpy(out.pairs + i / 2, &rounded, sizeof(rounded));
  }
}

[[gnu::always_inline]] inline __m512i interleave(__m512i elements) {
  alignas(64) static constexpr uint16_t kOrder[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), elements);
}

// Weights of a pair of elements of 16 rows. `whole`: both are there.
[[gnu::always_inline]] inline __m512i load_pair(const std::byte* p, bool whole) {
  if (whole) return interleave(_mm512_loadu_si512(p));
  return interleave(_mm512_zextsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
}

[[gnu::always_inline]] inline __m512 dot(__m512 sum, __m512i weights, uint32_t x) {
  const __m512i pair = _mm512_set1_epi32(static_cast<int32_t>(x));
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(weights), reinterpret_cast<__m512bh>(pair));
}

template <int kPanels, int kColumns>
void stream_panels(const LinearTile& tile, int64_t products_stride) {
  __m512 products[kColumns][kPanels];
  for (auto& column : products) {
    for (__m512& p : column) p = _mm512_setzero_ps();
  }
  RoundedRow<kStreamPairs> x[kColumns];
  for (int64_t first = 0; first < tile.k; first += 2 * kStreamPairs) {
    const int64_t count = tile.k - first < 2 * kStreamPairs ? tile.k - first : 2 * kStreamPairs;
    for (int c = 0; c < kColumns; ++c) round_row(tile.x + c * tile.x_stride + 4 * first, count, x[c]);
    const std::byte* panel = tile.panels + first * kLanes * kElementBytes;
    for (int64_t i = 0; i < (count + 1) / 2; ++i) {
      for (int p = 0; p < kPanels; ++p) {
        const __m512i w = load_pair(panel + p * tile.panel_stride + i * kPairBytes, 2 * i + 1 < count);
        for (int c = 0; c < kColumns; ++c) products[c][p] = dot(products[c][p], w, x[c].pairs[i]);
      }
    }
  }
  for (int c = 0; c < kColumns; ++c) {
    for (int p = 0; p < kPanels; ++p) _mm512_store_ps(tile.products + c * products_stride + p * kLanes, products[c][p]);
  }
}

template <int kColumns>
void stream_all(LinearTile tile) {
  const int64_t products_stride = tile.panels_count * kLanes;
  int64_t left = tile.panels_count;
  for (; left >= kStreamPanels; left -= kStreamPanels) {
    stream_panels<kStreamPanels, kColumns>(tile, products_stride);
    tile.panels += kStreamPanels * tile.panel_stride;
    tile.products += kStreamPanels * kLanes;
  }
  for (; left > 0; --left) {
    stream_panels<1, kColumns>(tile, products_stride);
    tile.panels += tile.panel_stride;
    tile.products += kLanes;
  }
}

template <int kPanels>
struct alignas(64) Unpacked {
  uint8_t pairs[kTilePairs][kPanels][64];
};

// Adds `count` elements of kColumns rows of x to the products.
template <int kPanels, int kColumns>
[[gnu::noinline]] void sweep(const Unpacked<kPanels>& w, int64_t count, const std::byte* x, int64_t x_stride,
                             float* products, int64_t products_stride) {
  RoundedRow<kTilePairs> rows[kColumns];
  __m512 sums[kColumns][kPanels];
  for (int c = 0; c < kColumns; ++c) {
    round_row(x + c * x_stride, count, rows[c]);
    for (int p = 0; p < kPanels; ++p) sums[c][p] = _mm512_load_ps(products + c * products_stride + p * kLanes);
  }
  for (int64_t i = 0; i < (count + 1) / 2; ++i) {
    __m512i weights[kPanels];
    for (int p = 0; p < kPanels; ++p) weights[p] = _mm512_load_si512(w.pairs[i][p]);
    for (int c = 0; c < kColumns; ++c) {
      for (int p = 0; p < kPanels; ++p) sums[c][p] = dot(sums[c][p], weights[p], rows[c].pairs[i]);
    }
  }
  for (int c = 0; c < kColumns; ++c) {
    for (int p = 0; p < kPanels; ++p) _mm512_store_ps(products + c * products_stride + p * kLanes, sums[c][p]);
  }
}

template <int kPanels, int kColumns>
void sweep_columns(int64_t columns, const Unpacked<kPanels>& w, int64_t count, const std::byte* x, int64_t x_stride,
                   float* products, int64_t products_stride) {
  if (columns >= kColumns) return sweep<kPanels, kColumns>(w, count, x, x_stride, products, products_stride);
  if constexpr (kColumns > 1) {
    sweep_columns<kPanels, kColumns - 1>(columns, w, count, x, x_stride, products, products_stride);
  }
}

template <int kPanels>
void sweep_panels(const LinearTile& tile) {
  Unpacked<kPanels> w;
  const int64_t products_stride = tile.panels_count * kLanes;
  for (int64_t c = 0; c < tile.columns; ++c) {
    for (int p = 0; p < kPanels; ++p) {
      _mm512_store_ps(tile.products + c * products_stride + p * kLanes, _mm512_setzero_ps());
    }
  }
  for (int64_t first = 0; first < tile.k; first += 2 * kTilePairs) {
    const int64_t count = tile.k - first < 2 * kTilePairs ? tile.k - first : 2 * kTilePairs;
    for (int p = 0; p < kPanels; ++p) {
      const std::byte* panel = tile.panels + p * tile.panel_stride + first * kLanes * kElementBytes;
      for (int64_t i = 0; i < (count + 1) / 2; ++i) {
        _mm512_store_si512(w.pairs[i][p], load_pair(panel + i * kPairBytes, 2 * i + 1 < count));
      }
    }
    for (int64_t c = 0; c < tile.columns; c += kSweepColumns) {
      sweep_columns<kPanels, kSweepColumns>(tile.columns - c, w, count, tile.x + c * tile.x_stride + 4 * first,
                                            tile.x_stride, tile.products + c * products_stride, products_stride);
    }
  }
}

void sweep_all(LinearTile tile) {
  // The stride of the products is that of the whole tile: panels_count stays.
  int64_t left = tile.panels_count;
  for (; left >= kSweepPanels; left -= kSweepPanels) {
    sweep_panels<kSweepPanels>(tile);
    tile.panels += kSweepPanels * tile.panel_stride;
    tile.products += kSweepPanels * kLanes;
  }
  if (left > 0) sweep_panels<1>(tile);
}

void linear_tile_of(const LinearTile& tile) {
  switch (tile.columns) {
    case 1:
      return stream_all<1>(tile);
    case 2:
      return stream_all<2>(tile);
    case 3:
      return stream_all<3>(tile);
    case 4:
      return stream_all<4>(tile);
    default:
      return sweep_all(tile);
  }
}

}  // namespace

LinearTileFn linear_tile_bf16(tensor::DType dtype) {
  return dtype == tensor::DType::bf16 ? linear_tile_of : nullptr;
}

}  // namespace minfer::cpu::avx512
