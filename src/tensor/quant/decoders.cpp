// The scalar decoders of the quantized types: each is one of the formulas of decode.hpp over the type's block. They are
// the oracle of the kernels and are checked bit for bit against the gguf Python package (codec_test.cpp).
#include <array>

#include "tensor/quant/decode.hpp"
#include "tensor/quant/iq4_nl.hpp"
#include "tensor/quant/iq4_xs.hpp"
#include "tensor/quant/mxfp4.hpp"
#include "tensor/quant/q2_k.hpp"
#include "tensor/quant/q3_k.hpp"
#include "tensor/quant/q4_0.hpp"
#include "tensor/quant/q4_1.hpp"
#include "tensor/quant/q4_k.hpp"
#include "tensor/quant/q5_0.hpp"
#include "tensor/quant/q5_1.hpp"
#include "tensor/quant/q5_k.hpp"
#include "tensor/quant/q6_k.hpp"
#include "tensor/quant/q8_0.hpp"

namespace minfer::tensor {

void dequantize_q4_0(const std::byte* source, int64_t blocks, float* destination) {
  decode_scaled<BlockQ4_0>(source, blocks, destination);
}

void dequantize_q5_0(const std::byte* source, int64_t blocks, float* destination) {
  decode_scaled<BlockQ5_0>(source, blocks, destination);
}

void dequantize_q8_0(const std::byte* source, int64_t blocks, float* destination) {
  decode_scaled<BlockQ8_0>(source, blocks, destination);
}

void dequantize_iq4_nl(const std::byte* source, int64_t blocks, float* destination) {
  decode_scaled<BlockIQ4_NL>(source, blocks, destination);
}

void dequantize_mxfp4(const std::byte* source, int64_t blocks, float* destination) {
  decode_scaled<BlockMXFP4>(source, blocks, destination,
                            [](const BlockMXFP4& block) { return e8m0_half_scale(block.e); });
}

void dequantize_q4_1(const std::byte* source, int64_t blocks, float* destination) {
  decode_scaled_plus_minimum<BlockQ4_1>(source, blocks, destination);
}

void dequantize_q5_1(const std::byte* source, int64_t blocks, float* destination) {
  decode_scaled_plus_minimum<BlockQ5_1>(source, blocks, destination);
}

void dequantize_q3_k(const std::byte* source, int64_t blocks, float* destination) {
  decode_groups<BlockQ3_K, 16>(source, blocks, destination,
                               [](const BlockQ3_K& block) { return unpack_scales(block); });
}

void dequantize_iq4_xs(const std::byte* source, int64_t blocks, float* destination) {
  decode_groups<BlockIQ4_XS, 32>(source, blocks, destination,
                                 [](const BlockIQ4_XS& block) { return unpack_scales(block); });
}

void dequantize_q6_k(const std::byte* source, int64_t blocks, float* destination) {
  decode_groups<BlockQ6_K, 16>(source, blocks, destination,
                               [](const BlockQ6_K& block) -> const int8_t(&)[16] { return block.scales; });
}

void dequantize_q2_k(const std::byte* source, int64_t blocks, float* destination) {
  struct Groups {
    std::array<uint8_t, 16> scales;
    std::array<uint8_t, 16> mins;
  };
  decode_groups_minus_minimum<BlockQ2_K, 16>(source, blocks, destination, [](const BlockQ2_K& block) {
    Groups groups;
    for (size_t g = 0; g < groups.scales.size(); ++g) {
      groups.scales[g] = block.scales[g] & 0x0F;
      groups.mins[g] = block.scales[g] >> 4;
    }
    return groups;
  });
}

void dequantize_q4_k(const std::byte* source, int64_t blocks, float* destination) {
  decode_groups_minus_minimum<BlockQ4_K, 32>(source, blocks, destination,
                                             [](const BlockQ4_K& block) { return unpack_scale_mins(block.scales); });
}

void dequantize_q5_k(const std::byte* source, int64_t blocks, float* destination) {
  decode_groups_minus_minimum<BlockQ5_K, 32>(source, blocks, destination,
                                             [](const BlockQ5_K& block) { return unpack_scale_mins(block.scales); });
}

}  // namespace minfer::tensor
