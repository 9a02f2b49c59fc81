// The limit kernels of AMX: 8-bit dots by tdpbssd on tiles; reading and multiply-adds are AVX-512's. See
// launch/limits.hpp.
#include "cpu/launch/limits.hpp"

#include <immintrin.h>

#include "cpu/kernels/amx/tile_config.hpp"

namespace minfer::cpu::amx {
namespace {

constexpr int kRows = 16;
constexpr int kRowBytes = 64;
constexpr int kSums = 4;                                           // tiles
constexpr int64_t kTileOps = int64_t{2} * kRows * 16 * kRowBytes;  // a multiply and an add for each byte
constexpr int64_t kRoundsOfOthers = 16;                            // a round does so much that fewer are enough

int64_t dot8(int64_t rounds) noexcept {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = kRowBytes;
    config.rows[t] = kRows;
  }
  asm volatile("" ::: "memory");  // written before it is read: g++ 12 does not know that it is
  _tile_loadconfig(&config);
  alignas(64) int8_t ones[kRows][kRowBytes];
  for (auto& row : ones) {
    for (int8_t& value : row) value = 1;
  }
  asm volatile("" ::: "memory");
  _tile_loadd(0, ones, kRowBytes);
  _tile_loadd(1, ones, kRowBytes);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t r = 0; r < rounds / kRoundsOfOthers; ++r) {
    _tile_dpbssd(4, 0, 1);
    _tile_dpbssd(5, 0, 1);
    _tile_dpbssd(6, 0, 1);
    _tile_dpbssd(7, 0, 1);
  }
  alignas(64) int32_t sums[kRows][16];
  _tile_stored(4, sums, kRowBytes);
  _tile_release();
  return sums[0][0];
}

}  // namespace

LimitKernels limit_kernels() {
  return {avx512::kLimitKernels.read, dot8, kSums * kTileOps / kRoundsOfOthers, avx512::kLimitKernels.multiply_add,
          avx512::kLimitKernels.multiply_add_ops_a_round};
}

}  // namespace minfer::cpu::amx
