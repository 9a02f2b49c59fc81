// AVX-512 linear kernels of F32 and F16: weights become floats, and an output is one chain of fused multiply-adds
// along k, in order, in `stream` as in `sweep`. Panels of 16 rows, element k of the rows at k * 16.
#include <immintrin.h>

#include <cstdint>

#include "cpu/kernels/avx512/linear_families.hpp"

namespace minfer::cpu::avx512 {
namespace {

constexpr int kLanes = 16;
constexpr int kStreamPanels = 4;  // sums in registers, enough to hide the latency of an addition
constexpr int kSweepPanels = 2;
constexpr int kSweepColumns = 6;
constexpr int64_t kTileElements = 128;  // unpacked at once: 16 KB

struct F32 {
  static constexpr int64_t kBytes = 4;
  [[gnu::always_inline]] static inline __m512 load(const std::byte* p) { return _mm512_loadu_ps(p); }
};
struct F16 {
  static constexpr int64_t kBytes = 2;
  [[gnu::always_inline]] static inline __m512 load(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
};
[[gnu::always_inline]] inline __m512 broadcast(const std::byte* p) {
  return _mm512_set1_ps(*reinterpret_cast<const float*>(p));
}

template <class F, int kPanels, int kColumns>
void stream_panels(const LinearTile& tile, int64_t products_stride) {
  __m512 products[kColumns][kPanels];
  for (auto& column : products) {
    for (__m512& p : column) p = _mm512_setzero_ps();
  }
  for (int64_t i = 0; i < tile.k; ++i) {
    __m512 x[kColumns];
    for (int c = 0; c < kColumns; ++c) x[c] = broadcast(tile.x + c * tile.x_stride + 4 * i);
    for (int p = 0; p < kPanels; ++p) {
      const __m512 w = F::load(tile.panels + p * tile.panel_stride + i * kLanes * F::kBytes);
      for (int c = 0; c < kColumns; ++c) products[c][p] = _mm512_fmadd_ps(w, x[c], products[c][p]);
    }
  }
  for (int c = 0; c < kColumns; ++c) {
    for (int p = 0; p < kPanels; ++p) _mm512_store_ps(tile.products + c * products_stride + p * kLanes, products[c][p]);
  }
}

template <class F, int kColumns>
void stream_all(LinearTile tile) {
  const int64_t products_stride = tile.panels_count * kLanes;
  int64_t left = tile.panels_count;
  for (; left >= kStreamPanels; left -= kStreamPanels) {
    stream_panels<F, kStreamPanels, kColumns>(tile, products_stride);
    tile.panels += kStreamPanels * tile.panel_stride;
    tile.products += kStreamPanels * kLanes;
  }
  for (; left > 0; --left) {
    stream_panels<F, 1, kColumns>(tile, products_stride);
    tile.panels += tile.panel_stride;
    tile.products += kLanes;
  }
}

template <int kPanels, int kColumns>
[[gnu::noinline]] void sweep(const float* w, int64_t count, const std::byte* x, int64_t x_stride, float* products,
                             int64_t products_stride) {
  __m512 sums[kColumns][kPanels];
  for (int c = 0; c < kColumns; ++c) {
    for (int p = 0; p < kPanels; ++p) sums[c][p] = _mm512_load_ps(products + c * products_stride + p * kLanes);
  }
  for (int64_t i = 0; i < count; ++i) {
    __m512 weights[kPanels];
    for (int p = 0; p < kPanels; ++p) weights[p] = _mm512_load_ps(w + (i * kPanels + p) * kLanes);
    for (int c = 0; c < kColumns; ++c) {
      const __m512 a = broadcast(x + c * x_stride + 4 * i);
      for (int p = 0; p < kPanels; ++p) sums[c][p] = _mm512_fmadd_ps(weights[p], a, sums[c][p]);
    }
  }
  for (int c = 0; c < kColumns; ++c) {
    for (int p = 0; p < kPanels; ++p) _mm512_store_ps(products + c * products_stride + p * kLanes, sums[c][p]);
  }
}

template <int kPanels, int kColumns>
void sweep_columns(int64_t columns, const float* w, int64_t count, const std::byte* x, int64_t x_stride,
                   float* products, int64_t products_stride) {
  if (columns >= kColumns) return sweep<kPanels, kColumns>(w, count, x, x_stride, products, products_stride);
  if constexpr (kColumns > 1) {
    sweep_columns<kPanels, kColumns - 1>(columns, w, count, x, x_stride, products, products_stride);
  }
}

template <class F, int kPanels>
void sweep_panels(const LinearTile& tile) {
  alignas(64) float w[kTileElements * kPanels * kLanes];
  const int64_t products_stride = tile.panels_count * kLanes;
  for (int64_t c = 0; c < tile.columns; ++c) {
    for (int p = 0; p < kPanels; ++p) {
      _mm512_store_ps(tile.products + c * products_stride + p * kLanes, _mm512_setzero_ps());
    }
  }
  for (int64_t first = 0; first < tile.k; first += kTileElements) {
    const int64_t count = tile.k - first < kTileElements ? tile.k - first : kTileElements;
    for (int p = 0; p < kPanels; ++p) {
      const std::byte* panel = tile.panels + p * tile.panel_stride + first * kLanes * F::kBytes;
      for (int64_t i = 0; i < count; ++i) {
        _mm512_store_ps(w + (i * kPanels + p) * kLanes, F::load(panel + i * kLanes * F::kBytes));
      }
    }
    for (int64_t c = 0; c < tile.columns; c += kSweepColumns) {
      sweep_columns<kPanels, kSweepColumns>(tile.columns - c, w, count, tile.x + c * tile.x_stride + 4 * first,
                                            tile.x_stride, tile.products + c * products_stride, products_stride);
    }
  }
}

template <class F>
void sweep_all(LinearTile tile) {
  // The stride of the products is that of the whole tile: panels_count stays.
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
  switch (tile.columns) {
    case 1:
      return stream_all<F, 1>(tile);
    case 2:
      return stream_all<F, 2>(tile);
    case 3:
      return stream_all<F, 3>(tile);
    case 4:
      return stream_all<F, 4>(tile);
    default:
      return sweep_all<F>(tile);
  }
}

}  // namespace

LinearTileFn linear_tile_plain(tensor::DType dtype) {
  using tensor::DType;
  switch (dtype) {
    case DType::f32:
      return linear_tile_of<F32>;
    case DType::f16:
      return linear_tile_of<F16>;
    default:
      return nullptr;
  }
}

LinearTileFn linear_tile(tensor::DType dtype) {
  if (const LinearTileFn tile = linear_tile_plain(dtype)) return tile;
  if (const LinearTileFn tile = linear_tile_bf16(dtype)) return tile;
  if (const LinearTileFn tile = linear_tile_32(dtype)) return tile;
  return linear_tile_k(dtype);
}

}  // namespace minfer::cpu::avx512
