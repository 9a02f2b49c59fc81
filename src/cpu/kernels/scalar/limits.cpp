// The limit kernels without vector instructions of their own: what the compiler makes of plain loops. See
// launch/limits.hpp.
#include "cpu/launch/limits.hpp"

#include <cstring>

namespace minfer::cpu::scalar {
namespace {

int64_t read(const std::byte* data, int64_t bytes, int streams) noexcept {
  const int64_t part = bytes / streams;
  uint64_t sum = 0;
  for (int64_t at = 0; at + 8 <= part; at += 8) {
    for (int s = 0; s < streams; ++s) {
      uint64_t word;
      std::memcpy(&word, data + s * part + at, sizeof word);
      sum += word;
    }
  }
  return static_cast<int64_t>(sum);
}

// Eight independent chains; the empty statement keeps the compiler from working the loop out beforehand.
int64_t dot8(int64_t rounds) noexcept {
  int32_t sums[8] = {};
  int32_t a = 3;
  for (int64_t r = 0; r < rounds; ++r) {
    asm volatile("" : "+r"(a));
    for (int i = 0; i < 8; ++i) sums[i] += a * (a + i);
  }
  int64_t total = 0;
  for (const int32_t sum : sums) total += sum;
  return total;
}

int64_t multiply_add(int64_t rounds) noexcept {
  float sums[8] = {};
  float a = 1.0001F;
  for (int64_t r = 0; r < rounds; ++r) {
    asm volatile("" : "+x"(a));
    for (float& sum : sums) sum = sum * a + 1e-6F;
  }
  float total = 0;
  for (const float sum : sums) total += sum;
  return static_cast<int64_t>(total);
}

}  // namespace

extern const LimitKernels kLimitKernels{read, dot8, 8 * 2, multiply_add, 8 * 2};

}  // namespace minfer::cpu::scalar
