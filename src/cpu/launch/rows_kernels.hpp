// The kernels over one row of f32: a table of functions for each instruction set, used by the launchers of rows.hpp and
// rope.hpp (which share the rows out among threads) and compared with each other in tests. A kernel takes any alignment
// and any n >= 1, reads each element before it writes at the same place (out may be an input; no other overlap), and
// gives a result that depends on its arguments alone: sums run in one order fixed by n. Scalar is the oracle. Included
// by sources with vector flags: nothing here has code.
#pragma once

#include <cstdint>

#include "graph/enums.hpp"

namespace minfer::cpu {

enum class Isa;

// The function of a feed-forward layer; gated ones have no gelu_erf.
using graph::Activation;

// Where a row's 8-bit form goes (launch/activation.hpp); quants null: nowhere. Then n must be a multiple of 32. The
// zeros after the last block are the launcher's. A block with a NaN or an infinity gets scale and sum NaN and quants 0,
// so that what is computed from it is NaN; one whose largest magnitude is under 127 times the smallest normal float
// gets zeros.
struct Q8Out {
  int8_t* quants = nullptr;
  float* scales = nullptr;
  float* sums = nullptr;
};

struct RowKernels {
  // out = x / sqrt(mean(x^2) + eps) * weight, to out and q8 (either may be null).
  void (*rms_norm)(const float* x, const float* weight, int64_t n, float eps, float* out, Q8Out q8) noexcept;
  // out = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * weight + bias, to out and q8 (either may be null).
  void (*layer_norm)(const float* x, const float* weight, const float* bias, int64_t n, float eps, float* out,
                     Q8Out q8) noexcept;  // bias may be null
  // x in 8 bits.
  void (*quantize)(const float* x, int64_t n, Q8Out q8) noexcept;
  // out = a + b
  void (*add)(const float* a, const float* b, int64_t n, float* out) noexcept;
  // out = factor x
  void (*scale)(const float* x, float factor, int64_t n, float* out) noexcept;
  // out = cap tanh(factor x / cap)
  void (*softcap)(const float* x, float factor, float cap, int64_t n, float* out) noexcept;
  // out = activation(gate) up, to out and q8 (either may be null).
  void (*gated)(Activation activation, const float* gate, const float* up, int64_t n, float* out, Q8Out q8) noexcept;
  // out = activation(x), to out and q8 (either may be null).
  void (*activate)(Activation activation, const float* x, int64_t n, float* out, Q8Out q8) noexcept;
  // Index of the first of the largest values; a NaN is never it; -1 where all are NaN. n under 2^31.
  int64_t (*argmax)(const float* x, int64_t n) noexcept;
  // Rotates the first `rotated` elements (even) of a head of n, copies the rest. angles[rotated / 2][2]: cosine, sine.
  // Halves: elements i and i + rotated / 2 are a pair; pairs: 2i and 2i + 1.
  void (*rope_halves)(const float* x, const float* angles, int64_t rotated, int64_t n, float* out) noexcept;
  void (*rope_pairs)(const float* x, const float* angles, int64_t rotated, int64_t n, float* out) noexcept;
};

// The table of an instruction set that is available (isa_available).
const RowKernels& row_kernels(Isa isa);

namespace scalar {
const RowKernels& row_kernels() noexcept;
}
namespace avx2 {
const RowKernels& row_kernels() noexcept;
}
namespace avx512 {
const RowKernels& row_kernels() noexcept;
}

}  // namespace minfer::cpu
