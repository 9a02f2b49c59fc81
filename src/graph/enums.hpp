// The small enumerations that graphs, devices and kernels share. Apart from ir.hpp because kernel sources, which are
// compiled for one instruction set, may include nothing with code: here are names of numbers only.
#pragma once

#include <cstdint>

namespace minfer::graph {

enum class Activation : uint8_t {
  silu,
  gelu_tanh,
  gelu_erf,    // the exact form; of ungated layers only
  swiglu_oai,  // gpt-oss: gate up to 7, up within +-7; gate sigmoid(1.702 gate) (up + 1); of gated layers only
};
inline constexpr float kSwigluOaiAlpha = 1.702F;
inline constexpr float kSwigluOaiLimit = 7.0F;

enum class RopeStyle : uint8_t {
  pairs,   // rotates (x[2i], x[2i+1]); the llama family's files
  halves,  // rotates (x[i], x[i + dims/2]); GPT-NeoX
};

// How keys and values are stored in the KV cache.
enum class KvFormat : uint8_t {
  f32,
  f16,   // rounded to nearest even
  bf16,  // rounded to nearest even
  q8_0,  // 8-bit integers with an f16 scale for each 32 elements of a head
};

}  // namespace minfer::graph
