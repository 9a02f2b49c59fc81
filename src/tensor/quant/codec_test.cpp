// The scalar decoders against the gguf Python package's, bit for bit (tests/golden/codecs, made by
// scripts/make_codec_goldens.py), and the unpacked integer quants against the decoded floats.
// Every decoder uses the oracle's float operations in the oracle's order, so that no tolerance is needed.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tensor/dtype.hpp"
#include "tensor/quant/iq4_xs.hpp"
#include "tensor/quant/mxfp4.hpp"
#include "tensor/quant/q3_k.hpp"
#include "tensor/quant/q5_k.hpp"

namespace minfer::tensor {
namespace {

struct Golden {
  DType dtype;
  int64_t blocks;
  std::vector<std::byte> source;
  std::vector<float> values;
};

template <class T>
T read_value(std::ifstream& file) {
  T value;
  file.read(reinterpret_cast<char*>(&value), sizeof(value));
  return value;
}

Golden read_golden(DType dtype) {
  const DTypeInfo& info = dtype_info(dtype);
  std::string name(info.name);
  for (char& c : name) c = static_cast<char>(std::tolower(c));
  std::ifstream file(std::string(MINFER_SOURCE_DIR) + "/tests/golden/codecs/" + name + ".bin", std::ios::binary);
  EXPECT_EQ(read_value<uint32_t>(file), 0x444F434Du) << name;  // "MCOD"
  EXPECT_EQ(read_value<uint32_t>(file), static_cast<uint32_t>(info.block_elements)) << name;
  EXPECT_EQ(read_value<uint32_t>(file), static_cast<uint32_t>(info.block_bytes)) << name;
  Golden golden{dtype, read_value<uint32_t>(file), {}, {}};
  golden.source.resize(static_cast<size_t>(golden.blocks * info.block_bytes));
  golden.values.resize(static_cast<size_t>(golden.blocks * info.block_elements));
  file.read(reinterpret_cast<char*>(golden.source.data()), static_cast<std::streamsize>(golden.source.size()));
  file.read(reinterpret_cast<char*>(golden.values.data()),
            static_cast<std::streamsize>(golden.values.size() * sizeof(float)));
  EXPECT_TRUE(file.good()) << name;
  EXPECT_EQ(file.peek(), EOF) << name;
  return golden;
}

std::vector<DType> decodable_types() {
  std::vector<DType> result;
  for (uint32_t id = 0; id < 64; ++id) {
    const auto dtype = dtype_from_id(id);
    if (dtype && dtype_info(*dtype).dequantize != nullptr) result.push_back(*dtype);
  }
  return result;
}

TEST(Codec, SeventeenTypesAreDecodable) {
  EXPECT_EQ(decodable_types().size(), 17u);
}

class CodecGolden : public testing::TestWithParam<DType> {};

TEST_P(CodecGolden, MatchesTheOracleBitForBit) {
  const Golden golden = read_golden(GetParam());
  ASSERT_GT(golden.blocks, 10);
  std::vector<float> decoded(golden.values.size());
  dtype_info(golden.dtype).dequantize(golden.source.data(), golden.blocks, decoded.data());
  for (size_t i = 0; i < decoded.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(decoded[i]), std::bit_cast<uint32_t>(golden.values[i]))
        << "element " << i << ": " << decoded[i] << ", expected " << golden.values[i];
  }
}

TEST_P(CodecGolden, TakesUnalignedSourceAndWritesNothingBeyond) {
  const Golden golden = read_golden(GetParam());
  std::vector<std::byte> shifted(golden.source.size() + 1);
  std::memcpy(shifted.data() + 1, golden.source.data(), golden.source.size());
  std::vector<float> decoded(golden.values.size() + 1, -77.0f);
  dtype_info(golden.dtype).dequantize(shifted.data() + 1, golden.blocks, decoded.data());
  EXPECT_EQ(std::memcmp(decoded.data(), golden.values.data(), golden.values.size() * sizeof(float)), 0);
  EXPECT_EQ(decoded.back(), -77.0f);
  dtype_info(golden.dtype).dequantize(shifted.data(), 0, &decoded.back());
  EXPECT_EQ(decoded.back(), -77.0f);
}

INSTANTIATE_TEST_SUITE_P(Types, CodecGolden, testing::ValuesIn(decodable_types()),
                         [](const auto& instance) { return std::string(dtype_info(instance.param).name); });

TEST(Codec, PackedScalesOfQ4K) {
  // Scale g = 1 + 7 g, minimum g = 63 - 8 g, packed by hand.
  uint8_t packed[12] = {};
  for (unsigned g = 0; g < 4; ++g) {
    const unsigned scale = 1 + 7 * g, min = 63 - 8 * g, scale4 = 1 + 7 * (g + 4), min4 = 63 - 8 * (g + 4);
    packed[g] = static_cast<uint8_t>(scale | (scale4 >> 4) << 6);
    packed[g + 4] = static_cast<uint8_t>(min | (min4 >> 4) << 6);
    packed[g + 8] = static_cast<uint8_t>((scale4 & 15) | (min4 & 15) << 4);
  }
  const ScaleMins groups = unpack_scale_mins(packed);
  for (unsigned g = 0; g < 8; ++g) {
    EXPECT_EQ(groups.scales[g], 1 + 7 * g);
    EXPECT_EQ(groups.mins[g], 63 - 8 * g);
  }
}

TEST(Codec, PackedScalesOfQ3KAndIQ4XS) {
  BlockQ3_K q3{};
  q3.scales[3] = 0xA5;      // low bits: 5 for group 3, 10 for group 11
  q3.scales[8 + 3] = 0x2D;  // high bits: 1 for group 3, 3 for 7, 2 for 11, 0 for 15
  const auto scales = unpack_scales(q3);
  EXPECT_EQ(scales[3], 5 + 16 - 32);
  EXPECT_EQ(scales[7], 48 - 32);
  EXPECT_EQ(scales[11], 10 + 32 - 32);
  EXPECT_EQ(scales[0], -32);
  BlockIQ4_XS iq4{};
  iq4.scales_l[3] = 0x9C;          // 12 for group 6, 9 for group 7
  iq4.scales_h = 0x4000 | 0x3000;  // 1 for group 7, 3 for group 6
  EXPECT_EQ(unpack_scales(iq4)[6], 12 + 48 - 32);
  EXPECT_EQ(unpack_scales(iq4)[7], 9 + 16 - 32);
  EXPECT_EQ(unpack_scales(iq4)[0], -32);
}

TEST(Codec, ScaleOfMxfp4) {
  for (int e = 0; e < 256; ++e) EXPECT_EQ(e8m0_half_scale(static_cast<uint8_t>(e)), std::ldexp(1.0f, e - 128)) << e;
}

}  // namespace
}  // namespace minfer::tensor
