// Attention with its rotation and append in one kernel (launch_rope_attention) against the two kernels one after the
// other, which have tests of their own: outputs, and every byte of the cache. The newest token's place is NaN before
// each, as are the outputs. Every format, head size and group; norms, styles, windows, chunks, several units a block.
#include <gtest/gtest.h>

#include <string>

#include "cuda/launch/attention_plan.hpp"
#include "cuda/launch/attention_test_data.hpp"

namespace minfer::cuda {
namespace {

using graph::KvFormat;
using graph::RopeStyle;

// Both multiply the same numbers in the same order; the compiler may contract other pairs.
constexpr double kFusedError = 1e-5;
// A rounded key or value next to a border may fall on the other side.
constexpr double kBytesThatDiffer = 1e-3;

struct Case {
  CacheSpec cache;
  int64_t group = 1;
  std::vector<int32_t> lengths;  // of the sequences, the newest token included
  int64_t rotated = 0;           // 0: the head size
  RopeStyle style = RopeStyle::halves;
  bool norms = true;
  bool sinks = false;
  int64_t window = 0;
  int64_t spare = 0;  // sequences and rows beyond the step's
  int multiprocessors = 0;
};

struct Result {
  std::vector<float> out;
  std::vector<std::byte> cache;
};

std::vector<float> strided(const std::vector<float>& rows, int64_t width) {
  const int64_t stride = row_stride(ActivationFormat::f32, width) / 4;
  const int64_t count = static_cast<int64_t>(rows.size()) / width;
  std::vector<float> out(static_cast<size_t>(count * stride), NAN);
  for (int64_t r = 0; r < count; ++r) std::copy_n(rows.begin() + r * width, width, out.begin() + r * stride);
  return out;
}

class Step {
 public:
  explicit Step(const Case& test)
      : case_(test),
        rows_(static_cast<int64_t>(test.lengths.size())),
        capacity_(rows_ + test.spare),
        heads_(test.cache.kv_heads * test.group),
        rotated_(test.rotated == 0 ? test.cache.key_size : test.rotated),
        host_(test.cache, count_pages(test)) {
    if (test.multiprocessors > 0) queue_.pretend_multiprocessors(test.multiprocessors);
    fill_cache();
    q_ = random_.normals(static_cast<size_t>(capacity_ * heads_ * test.cache.key_size));
    k_ = random_.normals(static_cast<size_t>(capacity_ * test.cache.kv_heads * test.cache.key_size));
    v_ = random_.normals(static_cast<size_t>(capacity_ * test.cache.kv_heads * test.cache.value_size));
    for (int64_t i = 0; i < capacity_ * rotated_ / 2; ++i) {
      const float angle = 10.0F * random_.normal();
      angles_.push_back(std::cos(angle));
      angles_.push_back(std::sin(angle));
    }
    norms_ = random_.normals(static_cast<size_t>(2 * test.cache.key_size));
    sinks_ = random_.normals(static_cast<size_t>(heads_));
  }

  int64_t out_size() const { return rows_ * heads_ * case_.cache.value_size; }

  Result run(bool fused) {
    const CacheSpec& spec = case_.cache;
    DeviceArray<std::byte> cache(host_.bytes());
    DeviceArray<float> q(strided(q_, heads_ * spec.key_size));
    DeviceArray<float> k(strided(k_, spec.kv_heads * spec.key_size));
    DeviceArray<float> v(strided(v_, spec.kv_heads * spec.value_size));
    DeviceArray<float> angles(strided(angles_, rotated_));
    DeviceArray<float> norms(norms_);
    DeviceArray<float> sinks(sinks_);
    DeviceArray<SequenceInfo> sequences(infos_);
    DeviceArray<int32_t> tables(tables_);
    DeviceArray<int32_t> slots(slots_);
    const int64_t out_width = heads_ * spec.value_size;
    DeviceArray<float> out(static_cast<size_t>(row_stride(ActivationFormat::f32, out_width) / 4 * capacity_));
    RopeAppendArgs rope;
    rope.q = rope.q_out = f32_rows(q.data(), capacity_, heads_ * spec.key_size);
    rope.k = f32_rows(k.data(), capacity_, spec.kv_heads * spec.key_size);
    rope.v = f32_rows(v.data(), capacity_, spec.kv_heads * spec.value_size);
    rope.angles = f32_rows(angles.data(), capacity_, rotated_);
    rope.q_norm = case_.norms ? norms.data() : nullptr;
    rope.k_norm = case_.norms ? norms.data() + spec.key_size : nullptr;
    rope.eps = 1e-5F;
    rope.heads = heads_;
    rope.style = case_.style;
    rope.kv = host_.view(cache.data());
    rope.step = {.sequences = sequences.data(),
                 .pages = tables.data(),
                 .slots = slots.data(),
                 .sequence_capacity = capacity_,
                 .row_capacity = capacity_,
                 .decode = true,
                 .sequence_tokens = longest_};
    AttentionArgs attention;
    attention.q = rope.q_out;
    attention.out = f32_rows(out.data(), capacity_, out_width);
    attention.heads = heads_;
    attention.scale = 1.0F / std::sqrt(static_cast<float>(spec.key_size));
    attention.window = case_.window;
    attention.sinks = case_.sinks ? sinks.data() : nullptr;
    attention.kv = rope.kv;
    attention.step = rope.step;
    const int64_t scratch_bytes =
        attention_scratch_bytes(*queue_.get().capabilities, rope.kv, heads_, capacity_, capacity_, longest_, true);
    DeviceArray<std::byte> scratch(static_cast<size_t>(scratch_bytes));
    EXPECT_EQ(cudaMemset(scratch.data(), 0, static_cast<size_t>(attention_counter_bytes())), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    attention.scratch = scratch.data();
    if (fused) {
      launch_rope_attention(queue_.get(), rope, attention);
    } else {
      launch_rope_append(queue_.get(), rope);
      launch_attention(queue_.get(), attention);
    }
    const auto used = scratch.download();
    for (int64_t i = 0; i < attention_counter_bytes(); ++i) {
      if (used[static_cast<size_t>(i)] == std::byte{0}) continue;
      ADD_FAILURE() << "counter byte " << i << " was left behind";
      break;
    }
    return {out.download(), cache.download()};
  }

 private:
  static int64_t count_pages(const Case& test) {
    int64_t pages = 3;  // that no sequence has
    for (const int32_t length : test.lengths) pages += (length + 63) / 64;
    return pages;
  }

  // Random numbers for every token but the newest.
  void fill_cache() {
    const auto order = Random(5).shuffled(static_cast<int32_t>(count_pages(case_)));
    size_t next = 0;
    for (const int32_t length : case_.lengths) {
      infos_.push_back({static_cast<int32_t>(infos_.size()), 1, length - 1, static_cast<int32_t>(tables_.size())});
      for (int32_t p = 0; p < length; ++p) {
        if (p % 64 == 0) tables_.push_back(order[next++]);
        for (int64_t h = 0; p + 1 < length && h < case_.cache.kv_heads; ++h) {
          host_.write(true, tables_.back(), p % 64, h,
                      random_.normals(static_cast<size_t>(case_.cache.key_size)).data());
          host_.write(false, tables_.back(), p % 64, h,
                      random_.normals(static_cast<size_t>(case_.cache.value_size)).data());
        }
      }
      slots_.push_back(tables_.back() * 64 + (length - 1) % 64);
      longest_ = std::max<int64_t>(longest_, length);
    }
    infos_.resize(static_cast<size_t>(capacity_), SequenceInfo{0, 0, 0, 0});
    slots_.resize(static_cast<size_t>(capacity_), -1);
  }

  Case case_;
  int64_t rows_, capacity_, heads_, rotated_;
  Random random_{11};
  HostCache host_;
  TestQueue queue_;
  int64_t longest_ = 0;
  std::vector<float> q_, k_, v_, angles_, norms_, sinks_;
  std::vector<SequenceInfo> infos_;
  std::vector<int32_t> tables_, slots_;
};

void expect_same(const Case& test, const std::string& what) {
  SCOPED_TRACE(what);
  Step step(test);
  const Result both = step.run(false);
  const Result fused = step.run(true);
  double difference = 0;
  double norm = 0;
  const int64_t width = test.cache.kv_heads * test.group * test.cache.value_size;
  const int64_t stride = row_stride(ActivationFormat::f32, width) / 4;
  for (size_t r = 0; r < test.lengths.size(); ++r) {
    for (int64_t i = 0; i < width; ++i) {
      const size_t at = r * static_cast<size_t>(stride) + static_cast<size_t>(i);
      ASSERT_TRUE(std::isfinite(both.out[at]) && std::isfinite(fused.out[at])) << "row " << r << " element " << i;
      const double d = static_cast<double>(fused.out[at]) - static_cast<double>(both.out[at]);
      difference += d * d;
      norm += static_cast<double>(both.out[at]) * static_cast<double>(both.out[at]);
    }
  }
  EXPECT_LE(std::sqrt(difference / norm), kFusedError);
  ASSERT_EQ(both.cache.size(), fused.cache.size());
  size_t differing = 0;
  for (size_t i = 0; i < both.cache.size(); ++i) differing += both.cache[i] != fused.cache[i] ? 1 : 0;
  const int64_t written = static_cast<int64_t>(test.lengths.size()) * test.cache.kv_heads * 2 * test.cache.key_size;
  EXPECT_LE(static_cast<double>(differing), kBytesThatDiffer * static_cast<double>(written));
}

std::vector<int32_t> lengths() {
  return {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 192, 257, 300};
}

TEST(CudaRopeAttention, AllSizesFormatsAndGroups) {
  for (const KvFormat format : {KvFormat::f16, KvFormat::bf16, KvFormat::q8_0}) {
    for (const int64_t size : {64, 80, 96, 128, 192, 256}) {
      if (format == KvFormat::q8_0 && size % 32 != 0) continue;
      for (const int64_t group : {1, 4, 7, 12}) {
        const CacheSpec cache{format, format, 2, size, size};
        expect_same({.cache = cache, .group = group, .lengths = lengths(), .spare = 2},
                    std::to_string(static_cast<int>(format)) + " size " + std::to_string(size) + " group " +
                        std::to_string(group));
      }
    }
  }
}

// Several chunks of columns, several units a block, many splits.
TEST(CudaRopeAttention, ChunksAndLongSequences) {
  for (const KvFormat format : {KvFormat::f16, KvFormat::q8_0}) {
    expect_same({.cache = {format, format, 1, 128, 128}, .group = 40, .lengths = {71, 300, 1}}, "chunks");
    expect_same({.cache = {format, format, 4, 64, 64}, .group = 2, .lengths = {3000, 512, 1, 1501}}, "long");
    expect_same({.cache = {format, format, 4, 64, 64},
                 .group = 2,
                 .lengths = {3000, 512, 3900, 1501},
                 .spare = 1,
                 .multiprocessors = 4},
                "few blocks");
    expect_same({.cache = {format, format, 8, 128, 128}, .group = 4, .lengths = {2500}}, "one");
  }
}

// Whole, or in few or many splits.
TEST(CudaRopeAttention, OneSequence) {
  for (const KvFormat format : {KvFormat::f16, KvFormat::bf16, KvFormat::q8_0}) {
    for (const int64_t size : {64, 128, 256}) {
      for (const int64_t kv_heads : {1, 8}) {
        const CacheSpec cache{format, format, kv_heads, size, size};
        for (const int32_t length : {64, 65, 300, 1100}) {
          expect_same({.cache = cache, .group = 3, .lengths = {length}, .sinks = length > 100},
                      std::to_string(kv_heads) + " heads of " + std::to_string(size) + ", " + std::to_string(length));
        }
      }
    }
  }
  expect_same({.cache = {KvFormat::f16, KvFormat::f16, 2, 128, 128}, .group = 12, .lengths = {400}}, "two tiles");
}

TEST(CudaRopeAttention, RotationsNormsWindowsAndSinks) {
  const CacheSpec cache{KvFormat::f16, KvFormat::f16, 2, 128, 128};
  expect_same({.cache = cache, .group = 4, .lengths = lengths(), .rotated = 64, .style = RopeStyle::pairs}, "pairs");
  expect_same({.cache = cache, .group = 4, .lengths = lengths(), .rotated = 40, .norms = false}, "40 of 128");
  expect_same({.cache = cache, .group = 4, .lengths = lengths(), .norms = false, .sinks = true}, "sinks");
  for (const int64_t window : {1, 64, 100}) {
    expect_same({.cache = cache, .group = 4, .lengths = lengths(), .sinks = true, .window = window},
                "window " + std::to_string(window));
  }
}

// What has no such kernel is both kernels.
TEST(CudaRopeAttention, OtherFormatsTakeBothKernels) {
  for (const CacheSpec& cache :
       {CacheSpec{KvFormat::f32, KvFormat::f32, 2, 128, 128}, CacheSpec{KvFormat::q8_0, KvFormat::f16, 2, 64, 64},
        CacheSpec{KvFormat::f16, KvFormat::f16, 2, 40, 24}}) {
    expect_same({.cache = cache, .group = 3, .lengths = {1, 70, 130}, .sinks = true}, "simple");
  }
}

}  // namespace
}  // namespace minfer::cuda
