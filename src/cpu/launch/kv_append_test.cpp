// Round trips through KV pages: what is appended reads back as f32, rounded to the format, whatever the instruction
// set, the order of slots and the split over threads.
#include "cpu/launch/kv_append.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tensor/dtype.hpp"

namespace minfer::cpu {
namespace {

struct RoundTrip {
  KvLayerSpec spec;
  std::vector<int64_t> slots;
  int64_t pages;
};

float rounded(KvFormat format, float value) {
  return format == KvFormat::f32 ? value : tensor::half_to_float(tensor::float_to_half(value));
}

// Appends random rows and compares every token's K and V with what was given.
void expect_round_trip(Isa isa, int threads, const RoundTrip& trip) {
  const KvLayerSpec& spec = trip.spec;
  const auto tokens = static_cast<int64_t>(trip.slots.size());
  const int64_t k_width = spec.kv_heads * spec.head_dim_k;
  const int64_t v_width = spec.kv_heads * spec.head_dim_v;
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0F, 3.0F);
  std::vector<float> k((k_width + 3) * tokens);  // rows 3 floats further apart than they are long
  std::vector<float> v((v_width + 5) * tokens);
  std::generate(k.begin(), k.end(), [&] { return normal(random); });
  std::generate(v.begin(), v.end(), [&] { return normal(random); });
  std::vector<std::byte> k_pages(static_cast<size_t>(trip.pages * kv_k_page_bytes(spec)));
  std::vector<std::byte> v_pages(static_cast<size_t>(trip.pages * kv_v_page_bytes(spec)));
  KvAppendArgs args;
  args.spec = spec;
  args.tokens = tokens;
  args.slots = trip.slots.data();
  args.k = k.data();
  args.k_stride = k_width + 3;
  args.v = v.data();
  args.v_stride = v_width + 5;
  args.k_base = k_pages.data();
  args.v_base = v_pages.data();
  args.k_page_stride = kv_k_page_bytes(spec);
  args.v_page_stride = kv_v_page_bytes(spec);
  ThreadPool pool(threads);
  pool.run([&](Worker& worker) { launch_kv_append(isa, worker, args); });

  std::vector<float> row(static_cast<size_t>(std::max(k_width, v_width)));
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t page = trip.slots[t] / kKvPageTokens;
    read_kv_k(spec, k_pages.data() + page * args.k_page_stride, trip.slots[t] % kKvPageTokens, row.data());
    for (int64_t i = 0; i < k_width; ++i) {
      ASSERT_EQ(row[i], rounded(spec.k_format, k[t * args.k_stride + i]))
          << isa_name(isa) << " K token " << t << " " << i;
    }
    read_kv_v(spec, v_pages.data() + page * args.v_page_stride, trip.slots[t] % kKvPageTokens, row.data());
    for (int64_t i = 0; i < v_width; ++i) {
      ASSERT_EQ(row[i], rounded(spec.v_format, v[t * args.v_stride + i]))
          << isa_name(isa) << " V token " << t << " " << i;
    }
  }
}

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (isa_available(isa)) isas.push_back(isa);
  }
  return isas;
}

TEST(KvLayout, OffsetsOfAPage) {
  const KvLayerSpec spec = {2, 8, 4, KvFormat::f16, KvFormat::f32};
  EXPECT_EQ(kv_k_page_bytes(spec), 2 * 64 * 8 * 2);
  EXPECT_EQ(kv_v_page_bytes(spec), 2 * 64 * 4 * 4);
  EXPECT_EQ(kv_k_offset(spec, 0, 0, 1), 16 * 2);
  EXPECT_EQ(kv_k_offset(spec, 0, 15, 0), 15 * 2);
  EXPECT_EQ(kv_k_offset(spec, 0, 16, 0), 8 * 16 * 2);
  EXPECT_EQ(kv_k_offset(spec, 1, 17, 3), 64 * 8 * 2 + (8 * 16 + 3 * 16 + 1) * 2);
  EXPECT_EQ(kv_v_offset(spec, 1, 63, 3), 64 * 4 * 4 + (63 * 4 + 3) * 4);
}

TEST(KvAppend, RoundTripOfEveryFormatAndOrder) {
  std::vector<int64_t> prompt(150);  // from the middle of page 2 into pages 3 and 4
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = 2 * 64 + 37 + static_cast<int64_t>(i);
  std::vector<int64_t> scattered = {5, 64 * 4 + 63, 6, 7, 130, 131, 129, 0};
  for (const Isa isa : available_isas()) {
    for (const KvFormat k_format : {KvFormat::f32, KvFormat::f16}) {
      for (const KvFormat v_format : {KvFormat::f32, KvFormat::f16}) {
        for (const auto& slots : {prompt, scattered}) {
          expect_round_trip(isa, 2, {{2, 64, 64, k_format, v_format}, slots, 5});
          expect_round_trip(isa, 1, {{3, 20, 13, k_format, v_format}, slots, 5});
        }
      }
    }
  }
}

TEST(KvAppend, HalfPrecisionOverflowIsInfinity) {
  for (const Isa isa : available_isas()) {
    const KvLayerSpec spec = {1, 1, 1, KvFormat::f16, KvFormat::f16};
    const float k = 1e6F;
    const float v = -65504.0F;
    const int64_t slot = 3;
    std::vector<std::byte> pages(static_cast<size_t>(kv_k_page_bytes(spec) + kv_v_page_bytes(spec)));
    KvAppendArgs args;
    args.spec = spec;
    args.tokens = 1;
    args.slots = &slot;
    args.k = &k;
    args.v = &v;
    args.k_base = pages.data();
    args.v_base = pages.data() + kv_k_page_bytes(spec);
    ThreadPool pool(1);
    pool.run([&](Worker& worker) { launch_kv_append(isa, worker, args); });
    float back = 0.0F;
    read_kv_k(spec, args.k_base, slot, &back);
    EXPECT_EQ(back, HUGE_VALF);
    read_kv_v(spec, args.v_base, slot, &back);
    EXPECT_EQ(back, -65504.0F);
  }
}

}  // namespace
}  // namespace minfer::cpu
