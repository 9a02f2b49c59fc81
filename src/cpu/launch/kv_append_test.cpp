// Round trips through KV pages: what is appended reads back as f32, rounded to the format, whatever the instruction
// set, the order of slots and the split over threads.
#include "cpu/launch/kv_append.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "cpu/launch/kv_test_data.hpp"
#include "tensor/dtype.hpp"

namespace minfer::cpu {
namespace {

struct RoundTrip {
  KvLayerSpec spec;
  std::vector<int64_t> slots;
  int64_t pages;
};

// A row as its format keeps it.
std::vector<float> kept(KvFormat format, const float* row, int64_t width) {
  std::vector<float> result(row, row + width);
  if (format == KvFormat::q8_0) {
    for (int64_t b = 0; b < width; b += 32) {
      float top = 0.0F;
      for (int64_t i = b; i < b + 32; ++i) top = std::max(top, std::abs(row[i]));
      const float d = top / 127.0F;
      const float scale = tensor::half_to_float(tensor::float_to_half(d));
      for (int64_t i = b; i < b + 32; ++i) result[i] = std::nearbyint(row[i] / d) * scale;
    }
    return result;
  }
  for (float& value : result) {
    if (format == KvFormat::f16) value = tensor::half_to_float(tensor::float_to_half(value));
    if (format == KvFormat::bf16) value = tensor::bfloat16_to_float(tensor::float_to_bfloat16(value));
  }
  return result;
}

// Appends random rows and compares every token's K and V with what was given.
void expect_round_trip(Isa isa, int threads, const RoundTrip& trip) {
  const KvLayerSpec& spec = trip.spec;
  const auto tokens = static_cast<int64_t>(trip.slots.size());
  const int64_t k_width = spec.kv_heads * spec.head_dim_k;
  const int64_t v_width = spec.kv_heads * spec.head_dim_v;
  const int64_t k_stride = k_width + 3;  // rows further apart than they are long
  const int64_t v_stride = v_width + 5;
  const std::vector<float> k = normal_floats(k_stride * tokens, 7, 3.0F);
  const std::vector<float> v = normal_floats(v_stride * tokens, 8, 3.0F);
  KvPages pages(spec, trip.pages);
  pages.append(isa, threads, trip.slots, k, v);
  for (int64_t t = 0; t < tokens; ++t) {
    ASSERT_EQ(pages.key(trip.slots[t]), kept(spec.k_format, k.data() + t * k_stride, k_width))
        << isa_name(isa) << " K " << format_text(spec.k_format) << " token " << t;
    ASSERT_EQ(pages.value(trip.slots[t]), kept(spec.v_format, v.data() + t * v_stride, v_width))
        << isa_name(isa) << " V " << format_text(spec.v_format) << " token " << t;
  }
}

TEST(KvLayout, OffsetsOfAPage) {
  const KvLayerSpec spec = {2, 8, 4, KvFormat::f16, KvFormat::f32};
  EXPECT_EQ(kv_k_page_bytes(spec), 2 * 64 * 8 * 2);
  EXPECT_EQ(kv_v_page_bytes(spec), 2 * 64 * 4 * 4);
  EXPECT_EQ(kv_k_offset(spec, 0, 0, 1), 64 * 2);
  EXPECT_EQ(kv_k_offset(spec, 0, 15, 0), 15 * 2);
  EXPECT_EQ(kv_k_offset(spec, 0, 16, 0), 16 * 2);
  EXPECT_EQ(kv_k_offset(spec, 1, 17, 3), 64 * 8 * 2 + (3 * 64 + 17) * 2);
  EXPECT_EQ(kv_v_offset(spec, 1, 63, 3), 64 * 4 * 4 + (63 * 4 + 3) * 4);
}

TEST(KvLayout, OffsetsOfAPageOfBlocks) {
  const KvLayerSpec spec = {2, 96, 64, KvFormat::q8_0, KvFormat::q8_0};
  EXPECT_EQ(kv_k_page_bytes(spec), 2 * 64 * 96 / 32 * 34);
  EXPECT_EQ(kv_v_page_bytes(spec), 2 * 64 * 64 / 32 * 34);
  EXPECT_EQ(kv_k_page_bytes(spec) % 64, 0);
  EXPECT_EQ(kv_k_offset(spec, 1, 17, 3), 64 * 96 / 32 * 34 + 3 * 64 + 17);
  EXPECT_EQ(kv_k_scale_offset(spec, 1, 17, 70), 64 * 96 / 32 * 34 + 64 * 96 + (2 * 64 + 17) * 2);
  EXPECT_EQ(kv_v_offset(spec, 1, 17, 3), 64 * 64 / 32 * 34 + 17 * 64 + 3);
  EXPECT_EQ(kv_v_scale_offset(spec, 1, 17, 33), 64 * 64 / 32 * 34 + 64 * 64 + (17 * 2 + 1) * 2);
}

TEST(KvAppend, RoundTripOfEveryFormatAndOrder) {
  std::vector<int64_t> prompt(150);  // from the middle of page 2 into pages 3 and 4
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = 2 * 64 + 37 + static_cast<int64_t>(i);
  std::vector<int64_t> scattered = {5, 64 * 4 + 63, 6, 7, 130, 131, 129, 0};
  for (const Isa isa : available_isas()) {
    for (const KvFormat k_format : kKvFormats) {
      for (const KvFormat v_format : kKvFormats) {
        for (const auto& slots : {prompt, scattered}) {
          expect_round_trip(isa, 2, {{2, 64, 64, k_format, v_format}, slots, 5});
          const int64_t k_size = kv_has_scales(k_format) ? 96 : 20;
          const int64_t v_size = kv_has_scales(v_format) ? 32 : 13;
          expect_round_trip(isa, 1, {{3, k_size, v_size, k_format, v_format}, slots, 5});
        }
      }
    }
  }
}

TEST(KvAppend, HalfPrecisionOverflowIsInfinity) {
  for (const Isa isa : available_isas()) {
    KvPages pages({1, 1, 1, KvFormat::f16, KvFormat::f16}, 1);
    pages.append(isa, 1, {3}, {1e6F}, {-65504.0F});
    EXPECT_EQ(pages.key(3)[0], HUGE_VALF);
    EXPECT_EQ(pages.value(3)[0], -65504.0F);
  }
}

// The edges of 8-bit blocks: ties to even, a block of zeros, one too small for a scale, one that is not finite.
TEST(KvAppend, EdgesOfBlocks) {
  for (const Isa isa : available_isas()) {
    std::vector<float> row(32 * 5);
    row[0] = 127.0F;  // a scale of 1
    row[1] = 2.5F;
    row[2] = -3.5F;
    row[3] = 0.49F;
    row[64] = 1e-7F;
    row[65] = -3e-44F;
    row[96] = NAN;
    row[97] = 1.0F;
    row[128] = -HUGE_VALF;
    row[129] = 1.0F;
    KvPages pages({1, 160, 160, KvFormat::q8_0, KvFormat::q8_0}, 1);
    pages.append(isa, 1, {63}, row, row);
    for (const std::vector<float>& back : {pages.key(63), pages.value(63)}) {
      EXPECT_EQ(back[0], 127.0F) << isa_name(isa);
      EXPECT_EQ(back[1], 2.0F);
      EXPECT_EQ(back[2], -4.0F);
      for (size_t i = 3; i < 96; ++i) EXPECT_EQ(back[i], 0.0F) << isa_name(isa) << " " << i;
      for (size_t i = 96; i < 160; ++i) EXPECT_FALSE(std::isfinite(back[i])) << isa_name(isa) << " " << i;
    }
  }
}

// All sets write the same bytes, numbers on the edge of bfloat16 among them.
TEST(KvAppend, BytesDoNotDependOnTheInstructionSet) {
  const uint32_t bits[] = {0x00000001, 0x807FFFFF, 0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF,
                           0x7F800000, 0xFF800001, 0x7FC12345, 0x00008000, 0x33000000, 0x33000001};
  std::vector<int64_t> slots(70);
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(i) + 11;
  for (const KvFormat format : kKvFormats) {
    std::vector<float> rows = normal_floats(70 * 2 * 96, 5);
    if (format != KvFormat::q8_0) {
      for (size_t i = 0; i < std::size(bits); ++i) rows[i * 97] = std::bit_cast<float>(bits[i]);
    }
    KvPages oracle({2, 96, 96, format, format}, 2);
    oracle.append(Isa::scalar, 1, slots, rows, rows);
    for (const Isa isa : available_isas()) {
      KvPages pages({2, 96, 96, format, format}, 2);
      pages.append(isa, 2, slots, rows, rows);
      EXPECT_TRUE(pages.k == oracle.k) << isa_name(isa) << " " << format_text(format);
      EXPECT_TRUE(pages.v == oracle.v) << isa_name(isa) << " " << format_text(format);
    }
  }
}

// One loop gives the bytes of its three parts: 70 tokens over two pages, 3 query heads a KV head, with norms.
TEST(RopeAppend, EqualsItsParts) {
  constexpr int64_t kTokens = 70, kKvHeads = 2, kHeads = 6, kDim = 32;
  const KvLayerSpec spec = {kKvHeads, kDim, kDim, KvFormat::f16, KvFormat::q8_0};
  std::vector<int64_t> slots(kTokens);
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(i) + 11;
  const std::vector<float> q = normal_floats(kTokens * kHeads * kDim, 1);
  const std::vector<float> keys = normal_floats(kTokens * kKvHeads * kDim, 2);
  const std::vector<float> values = normal_floats(kTokens * kKvHeads * kDim, 3);
  const std::vector<float> angles = normal_floats(kTokens * kDim, 4);
  const std::vector<float> norm = normal_floats(kDim, 5);
  const auto prepare = [&](const std::vector<float>& x, int64_t heads, std::vector<float>& out) {
    PrepareHeadsArgs args{};
    args.x = x.data();
    args.x_stride = args.out_stride = heads * kDim;
    args.rows = kTokens;
    args.heads = heads;
    args.head_dim = kDim;
    args.weight = norm.data();
    args.eps = 1e-6F;
    args.angles = angles.data();
    args.rotated = kDim;
    args.out = out.data();
    return args;
  };
  for (const Isa isa : available_isas()) {
    std::vector<float> q_alone(q.size()), k_alone(keys.size()), q_fused(q.size()), k_fused = keys;
    KvPages apart(spec, 2), fused(spec, 2);
    ThreadPool pool(3);
    pool.run([&](Worker& worker) {
      launch_prepare_heads(isa, worker, prepare(q, kHeads, q_alone));
      launch_prepare_heads(isa, worker, prepare(keys, kKvHeads, k_alone));
    });
    apart.append(isa, 3, slots, k_alone, values);
    const KvAppendArgs append = fused.append_args(slots, k_fused, values);
    pool.run([&](Worker& worker) {
      launch_rope_append(isa, worker, prepare(q, kHeads, q_fused), prepare(k_fused, kKvHeads, k_fused), append);
    });
    EXPECT_TRUE(q_fused == q_alone && k_fused == k_alone) << isa_name(isa);
    EXPECT_TRUE(fused.k == apart.k && fused.v == apart.v) << isa_name(isa);
  }
}

}  // namespace
}  // namespace minfer::cpu
