// Attention on the device against plain attention in double precision on the numbers that the cache holds: every kernel
// (split, tiles, simple), format, head size and group, ragged lengths over shuffled pages, windows, soft caps, steps
// with fewer rows and sequences than their capacity. Unwritten cache and outputs are NaN.
#include <gtest/gtest.h>

#include <string>

#include "cuda/launch/attention_plan.hpp"
#include "cuda/launch/attention_test_data.hpp"

namespace minfer::cuda {
namespace {

using graph::KvFormat;

// Relative L2 error of all rows, and of any one head of a row: some multiple, with fewer numbers to average over.
constexpr double kWorstHead = 2.5;
constexpr double kSimpleError = 5e-6;
constexpr double kSplitError = 5e-4;
constexpr double kTileError = 1e-3;
constexpr double kTileBfloatError = 3e-3;

struct Span {
  int32_t first_position;
  int32_t rows;
};

struct Case {
  CacheSpec cache;
  int64_t group = 1;
  std::vector<Span> sequences;
  bool decode = false;
  int64_t window = 0;
  float softcap = 0;
  bool sinks = false;
  int64_t spare_sequences = 0;
  int64_t spare_rows = 0;
  int multiprocessors = 0;  // that the launcher is told of; 0: the card's
  bool causal = true;
};

// A step with its cache and queries; runs it and holds the reference.
class Step {
 public:
  Step(const Case& test, uint32_t seed) : case_(test), random_(seed), host_(test.cache, count_pages(test)) {
    heads_ = test.cache.kv_heads * test.group;
    if (test.multiprocessors > 0) queue_.pretend_multiprocessors(test.multiprocessors);
    fill_cache();
    describe();
    queries_ = random_.normals(static_cast<size_t>(row_capacity_ * heads_ * test.cache.key_size));
    for (float& q : queries_) q *= 1.5F;
    // From far below the scores to above them.
    for (int64_t h = 0; h < heads_; ++h) sinks_.push_back(h % 5 == 4 ? -INFINITY : 3.0F * random_.normal());
  }

  void set_queries(const std::vector<float>& queries) {
    std::copy_n(queries.begin(), queries_.size(), queries_.begin());
  }
  int64_t heads() const { return heads_; }
  int64_t out_width() const { return heads_ * case_.cache.value_size; }
  int64_t rows() const { return rows_; }
  int64_t row_capacity() const { return row_capacity_; }
  AttentionPlan plan() const {
    return plan_attention(*queue_.get().capabilities, host_.view(nullptr),
                          {heads_, row_capacity_, sequence_capacity_, longest_, case_.window, case_.decode});
  }

  // Output rows as bytes; `repeats` launches into the same scratch.
  std::vector<std::byte> run(ActivationFormat format, int repeats = 1) {
    DeviceArray<std::byte> cache(host_.bytes());
    DeviceArray<float> q(strided_queries());
    DeviceArray<SequenceInfo> sequences(infos_);
    DeviceArray<int32_t> tables(tables_);
    DeviceArray<int32_t> row_sequence(row_sequence_);
    DeviceArray<int32_t> row_position(row_position_);
    DeviceArray<float> sinks(sinks_);
    DeviceArray<std::byte> out(static_cast<size_t>(row_stride(format, out_width()) * row_capacity_));
    AttentionArgs args;
    args.q = f32_rows(q.data(), row_capacity_, heads_ * case_.cache.key_size);
    args.out = {format, out.data(), row_capacity_, out_width()};
    args.heads = heads_;
    args.scale = scale();
    args.window = case_.window;
    args.softcap = case_.softcap;
    args.causal = case_.causal;
    args.sinks = case_.sinks ? sinks.data() : nullptr;
    args.kv = host_.view(cache.data());
    args.step = {.sequences = sequences.data(),
                 .pages = tables.data(),
                 .slots = nullptr,
                 .row_sequence = row_sequence.data(),
                 .row_position = row_position.data(),
                 .sequence_capacity = sequence_capacity_,
                 .row_capacity = row_capacity_,
                 .decode = case_.decode,
                 .sequence_tokens = longest_};
    const int64_t scratch_bytes = attention_scratch_bytes(*queue_.get().capabilities, args.kv, heads_, row_capacity_,
                                                          sequence_capacity_, longest_, case_.decode);
    DeviceArray<std::byte> scratch(static_cast<size_t>(scratch_bytes));
    EXPECT_EQ(cudaMemset(scratch.data(), 0, static_cast<size_t>(attention_counter_bytes())), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    args.scratch = scratch.data();
    for (int i = 0; i < repeats; ++i) {
      out.poison();
      launch_attention(queue_.get(), args);
    }
    auto bytes = out.download();
    const auto used = scratch.download();
    for (int64_t i = 0; i < attention_counter_bytes(); ++i) {
      EXPECT_EQ(used[static_cast<size_t>(i)], std::byte{0}) << "counter byte " << i << " was left behind";
      if (used[static_cast<size_t>(i)] != std::byte{0}) break;
    }
    return bytes;
  }

  std::vector<float> run_f32(int repeats = 1) {
    const auto bytes = run(ActivationFormat::f32, repeats);
    std::vector<float> out(static_cast<size_t>(row_capacity_ * out_width()));
    for (int64_t r = 0; r < row_capacity_; ++r) {
      std::memcpy(out.data() + r * out_width(), bytes.data() + r * row_stride(ActivationFormat::f32, out_width()),
                  static_cast<size_t>(out_width() * 4));
    }
    return out;
  }

  // [rows][heads][value size]
  std::vector<double> reference() {
    std::vector<double> out;
    for (size_t s = 0; s < infos_.size(); ++s) {
      for (int32_t r = 0; r < infos_[s].rows; ++r) {
        for (int64_t h = 0; h < heads_; ++h) attend(s, r, h, out);
      }
    }
    return out;
  }

 private:
  std::vector<float> strided_queries() const {
    const int64_t width = heads_ * case_.cache.key_size;
    const int64_t stride = row_stride(ActivationFormat::f32, width) / 4;
    std::vector<float> out(static_cast<size_t>(row_capacity_ * stride), NAN);
    for (int64_t r = 0; r < row_capacity_; ++r)
      std::copy_n(queries_.begin() + r * width, width, out.begin() + r * stride);
    return out;
  }
  static int64_t count_pages(const Case& test) {
    int64_t pages = 3;  // that no sequence has
    for (const Span& s : test.sequences) pages += (s.first_position + s.rows + 63) / 64;
    return pages;
  }
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(case_.cache.key_size)); }

  void fill_cache() {
    const auto order = Random(5).shuffled(static_cast<int32_t>(count_pages(case_)));
    size_t next = 0;
    for (const Span& s : case_.sequences) {
      first_pages_.push_back(static_cast<int32_t>(tables_.size()));
      keys_.emplace_back();
      values_.emplace_back();
      for (int32_t p = 0; p < s.first_position + s.rows; ++p) {
        if (p % 64 == 0) tables_.push_back(order[next++]);
        for (int64_t h = 0; h < case_.cache.kv_heads; ++h) {
          add_head(true, p, h, keys_.back());
          add_head(false, p, h, values_.back());
        }
      }
      longest_ = std::max<int64_t>(longest_, s.first_position + s.rows);
    }
  }

  // Writes a head of random numbers and keeps what the cache made of them.
  void add_head(bool key, int64_t position, int64_t head, std::vector<float>& kept) {
    const int64_t size = key ? case_.cache.key_size : case_.cache.value_size;
    const int64_t page = tables_.back();
    host_.write(key, page, position % 64, head, random_.normals(static_cast<size_t>(size)).data());
    for (int64_t i = 0; i < size; ++i) kept.push_back(host_.read(key, page, position % 64, head, i));
  }

  void describe() {
    for (size_t i = 0; i < case_.sequences.size(); ++i) {
      const Span& s = case_.sequences[i];
      infos_.push_back({static_cast<int32_t>(rows_), s.rows, s.first_position, first_pages_[i]});
      for (int32_t r = 0; r < s.rows; ++r) {
        row_sequence_.push_back(static_cast<int32_t>(i));
        row_position_.push_back(s.first_position + r);
      }
      rows_ += s.rows;
    }
    row_capacity_ = rows_ + case_.spare_rows;
    row_sequence_.resize(static_cast<size_t>(row_capacity_), -1);
    row_position_.resize(static_cast<size_t>(row_capacity_), 0);
    sequence_capacity_ = static_cast<int64_t>(infos_.size()) + case_.spare_sequences;
    infos_.resize(static_cast<size_t>(sequence_capacity_), SequenceInfo{0, 0, 0, 0});
  }

  void attend(size_t sequence, int32_t row, int64_t head, std::vector<double>& out) {
    const SequenceInfo& info = infos_[sequence];
    const int64_t last = info.first_position + (case_.causal ? row : info.rows - 1);
    const int64_t first = case_.window > 0 ? std::max<int64_t>(0, last + 1 - case_.window) : 0;
    const int64_t kv_head = head / case_.group;
    const float* q = queries_.data() + ((info.first_row + row) * heads_ + head) * case_.cache.key_size;
    std::vector<double> scores;
    const double sink = case_.sinks ? static_cast<double>(sinks_[static_cast<size_t>(head)]) : -INFINITY;
    double top = sink;
    for (int64_t p = first; p <= last; ++p) {
      const float* k = keys_[sequence].data() + (p * case_.cache.kv_heads + kv_head) * case_.cache.key_size;
      double sum = 0;
      for (int64_t d = 0; d < case_.cache.key_size; ++d) sum += static_cast<double>(q[d]) * static_cast<double>(k[d]);
      sum *= scale();
      if (case_.softcap > 0) sum = case_.softcap * std::tanh(sum / case_.softcap);
      scores.push_back(sum);
      top = std::max(top, sum);
    }
    double total = std::exp(sink - top);
    for (double& s : scores) total += s = std::exp(s - top);
    const size_t at = out.size();
    out.resize(at + static_cast<size_t>(case_.cache.value_size));
    for (int64_t p = first; p <= last; ++p) {
      const float* v = values_[sequence].data() + (p * case_.cache.kv_heads + kv_head) * case_.cache.value_size;
      const double weight = scores[static_cast<size_t>(p - first)] / total;
      for (int64_t d = 0; d < case_.cache.value_size; ++d)
        out[at + static_cast<size_t>(d)] += weight * static_cast<double>(v[d]);
    }
  }

  Case case_;
  Random random_;
  HostCache host_;
  TestQueue queue_;
  int64_t heads_ = 0, rows_ = 0, row_capacity_ = 0, sequence_capacity_ = 0, longest_ = 0;
  std::vector<float> queries_, sinks_;
  std::vector<std::vector<float>> keys_, values_;  // of each sequence: [position][kv head][size]
  std::vector<SequenceInfo> infos_;
  std::vector<int32_t> tables_, first_pages_, row_sequence_, row_position_;
};

struct Errors {
  double all = 0, worst = 0;
};

// Of [vectors][size]; NaN counts as infinite.
Errors relative_errors(const std::vector<float>& got, const std::vector<double>& want, int64_t size) {
  Errors errors;
  double all_difference = 0;
  double all_norm = 0;
  for (size_t v = 0; v < want.size(); v += static_cast<size_t>(size)) {
    double difference = 0;
    double norm = 0;
    for (size_t i = v; i < v + static_cast<size_t>(size); ++i) {
      const double d = static_cast<double>(got[i]) - want[i];
      difference += std::isfinite(d) ? d * d : 1e30;
      norm += want[i] * want[i];
    }
    errors.worst = std::max(errors.worst, std::sqrt(difference / norm));
    all_difference += difference;
    all_norm += norm;
  }
  errors.all = std::sqrt(all_difference / all_norm);
  return errors;
}

void expect_close(const Case& test, double limit, const std::string& what, uint32_t seed = 1) {
  SCOPED_TRACE(what);
  Step step(test, seed);
  const auto got = step.run_f32();
  const auto want = step.reference();
  ASSERT_GE(got.size(), want.size());
  const Errors errors = relative_errors(got, want, test.cache.value_size);
  EXPECT_LE(errors.all, limit);
  EXPECT_LE(errors.worst, kWorstHead * limit);
  for (size_t i = want.size(); i < got.size(); ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, &got[i], 4);
    ASSERT_EQ(bits, 0xFFFFFFFFU) << "a row beyond the step was written, element " << i;
  }
}

std::string name_of(const CacheSpec& c, int64_t group) {
  static constexpr const char* kNames[] = {"f32", "f16", "bf16", "q8_0"};
  return std::string(kNames[static_cast<int>(c.key_format)]) + "/" + kNames[static_cast<int>(c.value_format)] +
         " heads " + std::to_string(c.kv_heads) + "x" + std::to_string(group) + " size " + std::to_string(c.key_size) +
         "/" + std::to_string(c.value_size);
}

std::vector<Span> decode_spans() {
  std::vector<Span> spans;
  for (const int32_t length : {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 192, 255, 257, 300})
    spans.push_back({length - 1, 1});
  return spans;
}

bool has_format(KvFormat format, int64_t size) {
  return format != KvFormat::q8_0 || size % 32 == 0;
}

TEST(CudaAttention, RowsSeeTheirWholeSequencesWhereItIsNotCausal) {
  for (const KvFormat format : {KvFormat::f32, KvFormat::f16, KvFormat::q8_0}) {
    for (const int64_t size : {32, 64}) {
      const CacheSpec cache{format, format, 4, size, size};
      expect_close({.cache = cache,
                    .group = 1,
                    .sequences = {{0, 1}, {0, 64}, {0, 37}, {0, 130}},
                    .spare_sequences = 2,
                    .spare_rows = 3,
                    .causal = false},
                   kSimpleError, name_of(cache, 1));
    }
  }
}

TEST(CudaAttention, DecodeOfAllSizesAndFormats) {
  for (const KvFormat format : {KvFormat::f16, KvFormat::bf16, KvFormat::q8_0}) {
    for (const int64_t size : {64, 80, 96, 128, 192, 256}) {
      if (!has_format(format, size)) continue;
      for (const int64_t group : {1, 4, 7}) {
        const CacheSpec cache{format, format, 2, size, size};
        expect_close({.cache = cache,
                      .group = group,
                      .sequences = decode_spans(),
                      .decode = true,
                      .spare_sequences = 2,
                      .spare_rows = 2},
                     kSplitError, name_of(cache, group));
      }
    }
  }
}

TEST(CudaAttention, DecodeOfGroupsWindowsAndCaps) {
  const CacheSpec cache{KvFormat::f16, KvFormat::f16, 1, 128, 128};
  for (const int64_t group : {2, 8, 9, 16, 20, 40}) {
    expect_close({.cache = cache, .group = group, .sequences = {{70, 1}, {299, 1}}, .decode = true}, kSplitError,
                 name_of(cache, group));
  }
  for (const KvFormat format : {KvFormat::f16, KvFormat::bf16, KvFormat::q8_0}) {
    const CacheSpec large{format, format, 2, 256, 256};
    for (const int64_t window : {1, 16, 50, 64, 100, 128, 250}) {
      expect_close({.cache = large, .group = 2, .sequences = decode_spans(), .decode = true, .window = window},
                   kSplitError, name_of(large, 2) + " window " + std::to_string(window));
    }
    expect_close({.cache = large, .group = 2, .sequences = decode_spans(), .decode = true, .softcap = 2.0F},
                 kSplitError, name_of(large, 2) + " capped");
  }
}

// A score beside the tokens': in every kernel, with a maximum of its own or not.
TEST(CudaAttention, Sinks) {
  const std::vector<Span> spans{{0, 1}, {0, 200}, {100, 1}, {63, 2}, {130, 67}, {299, 1}};
  for (const KvFormat format : {KvFormat::f16, KvFormat::bf16, KvFormat::q8_0}) {
    for (const int64_t size : {64, 96, 128, 256}) {
      const CacheSpec cache{format, format, 2, size, size};
      const double limit = format == KvFormat::bf16 ? kTileBfloatError : kTileError;
      for (const int64_t window : {0, 48}) {
        const std::string what = name_of(cache, 5) + " window " + std::to_string(window);
        expect_close(
            {.cache = cache, .group = 5, .sequences = decode_spans(), .decode = true, .window = window, .sinks = true},
            kSplitError, what + " decode");
        expect_close({.cache = cache, .group = 5, .sequences = spans, .window = window, .sinks = true}, limit, what);
      }
    }
  }
  const CacheSpec plain{KvFormat::f32, KvFormat::f32, 2, 48, 48};
  expect_close({.cache = plain, .group = 5, .sequences = spans, .softcap = 3.0F, .sinks = true}, kSimpleError,
               "simple");
}

// More pages than splits: several pages a split.
TEST(CudaAttention, DecodeOfLongSequences) {
  for (const KvFormat format : {KvFormat::f16, KvFormat::q8_0}) {
    const CacheSpec cache{format, format, 16, 64, 64};
    expect_close({.cache = cache, .group = 2, .sequences = {{2999, 1}, {511, 1}, {1023, 1}, {1500, 1}}, .decode = true},
                 kSplitError, name_of(cache, 2));
    expect_close({.cache = cache, .group = 2, .sequences = {{2999, 1}, {1500, 1}}, .decode = true, .window = 1000},
                 kSplitError, name_of(cache, 2) + " window");
  }
}

void expect_alone_as_in_a_batch(int32_t first_position, int64_t group) {
  SCOPED_TRACE(first_position);
  const CacheSpec cache{KvFormat::f16, KvFormat::f16, 2, 128, 128};
  Case one{.cache = cache, .group = group, .sequences = {{first_position, 1}}, .decode = true};
  Case many = one;
  for (const Span& span : decode_spans()) many.sequences.push_back(span);
  many.spare_sequences = 5;
  many.spare_rows = 5;
  // The first sequence draws the same numbers; the queries come last and so are drawn apart.
  Step alone(one, 9);
  Step batch(many, 9);
  const auto queries = Random(77).normals(static_cast<size_t>(batch.row_capacity() * batch.heads() * 128));
  alone.set_queries(queries);
  batch.set_queries(queries);
  const auto a = alone.run_f32(3);
  const auto b = batch.run_f32(3);
  for (int64_t i = 0; i < alone.out_width(); ++i) {
    ASSERT_EQ(a[static_cast<size_t>(i)], b[static_cast<size_t>(i)]) << "element " << i << " group " << group;
  }
}

TEST(CudaAttention, SplitsDoNotDependOnTheBatch) {
  for (const int64_t group : {4, 12}) {
    for (const int32_t first_position : {1200, 900, 300, 64}) expect_alone_as_in_a_batch(first_position, group);
  }
}

// More shares than blocks: each takes several.
TEST(CudaAttention, SharesOfFewBlocks) {
  for (const KvFormat format : {KvFormat::f16, KvFormat::q8_0}) {
    const CacheSpec cache{format, format, 4, 64, 64};
    Case test{.cache = cache,
              .group = 2,
              .sequences = {{2999, 1}, {511, 1}, {3900, 1}, {1500, 1}},
              .decode = true,
              .spare_sequences = 1,
              .spare_rows = 1};
    Step all(test, 1);
    const auto wide = all.run_f32(2);
    test.multiprocessors = 4;
    expect_close(test, kSplitError, name_of(cache, 2));
    Step few(test, 1);
    const auto narrow = few.run_f32(3);
    for (int64_t i = 0; i < all.rows() * all.out_width(); ++i) {
      ASSERT_EQ(wide[static_cast<size_t>(i)], narrow[static_cast<size_t>(i)]) << "element " << i;
    }
  }
}

TEST(CudaAttention, SimpleKernelTakesTheRest) {
  const std::vector<Span> spans{{0, 1}, {62, 3}, {200, 1}, {0, 70}};
  for (const CacheSpec& cache :
       {CacheSpec{KvFormat::f32, KvFormat::f32, 2, 128, 128}, CacheSpec{KvFormat::f16, KvFormat::f16, 2, 24, 40},
        CacheSpec{KvFormat::bf16, KvFormat::q8_0, 1, 7, 32}, CacheSpec{KvFormat::q8_0, KvFormat::f32, 1, 512, 3},
        CacheSpec{KvFormat::f16, KvFormat::bf16, 1, 128, 128}}) {
    for (const int64_t window : {0, 40}) {
      Case test{.cache = cache,
                .group = 3,
                .sequences = spans,
                .window = window,
                .softcap = window > 0 ? 5.0F : 0.0F,
                .spare_sequences = 1,
                .spare_rows = 4};
      EXPECT_TRUE(Step(test, 1).plan().simple);
      expect_close(test, kSimpleError, name_of(cache, 3) + " window " + std::to_string(window));
    }
  }
  const CacheSpec cache{KvFormat::f32, KvFormat::f32, 2, 64, 64};
  expect_close(
      {.cache = cache, .group = 2, .sequences = decode_spans(), .decode = true, .spare_sequences = 1, .spare_rows = 1},
      kSimpleError, "decode");
}

// Mixed steps: rows of few-row sequences go to the split kernel, the others to tiles.
TEST(CudaAttention, MixedStepsOfAllSizesAndFormats) {
  const std::vector<Span> spans{{0, 1}, {0, 200}, {100, 1}, {63, 2}, {130, 67}, {60, 8}, {299, 1}, {10, 33}};
  for (const KvFormat format : {KvFormat::f16, KvFormat::bf16, KvFormat::q8_0}) {
    for (const int64_t size : {64, 80, 96, 128, 192, 256}) {
      if (!has_format(format, size)) continue;
      const CacheSpec cache{format, format, 2, size, size};
      const int64_t group = size == 96 ? 7 : size == 64 ? 1 : 4;
      const double limit = format == KvFormat::bf16 ? kTileBfloatError : kTileError;
      expect_close({.cache = cache, .group = group, .sequences = spans, .spare_sequences = 3, .spare_rows = 50}, limit,
                   name_of(cache, group));
      expect_close({.cache = cache, .group = group, .sequences = spans, .window = 48, .softcap = 4.0F}, limit,
                   name_of(cache, group) + " window, capped");
    }
  }
}

TEST(CudaAttention, MixedStepsOfGroupsAndWindows) {
  for (const int64_t group : {1, 2, 8, 16, 24}) {
    const CacheSpec cache{KvFormat::f16, KvFormat::f16, 1, 128, 128};
    for (const int64_t window : {0, 1, 64, 100}) {
      expect_close(
          {.cache = cache, .group = group, .sequences = {{0, 150}, {77, 129}, {5, 1}, {200, 60}}, .window = window},
          kTileError, name_of(cache, group) + " window " + std::to_string(window));
    }
  }
}

// Short prompts behind long contexts: columns in several chunks.
TEST(CudaAttention, FewRowsOfOneSequence) {
  for (const KvFormat format : {KvFormat::f16, KvFormat::bf16, KvFormat::q8_0}) {
    for (const int64_t size : {64, 128, 256}) {
      const CacheSpec cache{format, format, 2, size, size};
      for (const Span span : {Span{500, 2}, Span{290, 20}, Span{130, 64}}) {
        for (const int64_t window : {0, 70}) {
          Case test{.cache = cache, .group = 5, .sequences = {span}, .window = window};
          EXPECT_FALSE(Step(test, 1).plan().tiles);
          expect_close(test, kSplitError, name_of(cache, 5) + " rows " + std::to_string(span.rows));
        }
      }
    }
  }
}

// Many sequences: beside them only single rows are split.
TEST(CudaAttention, MixedStepsOfManySequences) {
  std::vector<Span> spans;
  for (int32_t i = 0; i < 90; ++i) spans.push_back({i * 2, 1 + i % 5 * (i % 3)});
  const CacheSpec cache{KvFormat::bf16, KvFormat::bf16, 2, 64, 64};
  expect_close({.cache = cache, .group = 2, .sequences = spans, .spare_sequences = 20, .spare_rows = 20},
               kTileBfloatError, "many");
}

TEST(CudaAttention, OutputsInOtherFormats) {
  for (const int64_t kernel : {0, 1, 2}) {  // split, tiles and split, simple
    const KvFormat format = kernel == 2 ? KvFormat::f32 : KvFormat::f16;
    const CacheSpec cache{format, format, 2, 64, 64};
    Case test{.cache = cache, .group = 3, .sequences = {{70, 1}, {5, 1}, {300, 1}}, .decode = kernel == 0};
    if (kernel != 0) test.sequences.push_back({30, 50});
    Step step(test, 4);
    const auto f32 = step.run_f32();
    const auto bf16 = step.run(ActivationFormat::bf16);
    const auto q8 = step.run(ActivationFormat::q8);
    const int64_t width = step.out_width();
    for (int64_t r = 0; r < step.rows(); ++r) {
      for (int64_t i = 0; i < width; ++i) {
        uint16_t bits = 0;
        std::memcpy(&bits, bf16.data() + r * row_stride(ActivationFormat::bf16, width) + i * 2, 2);
        ASSERT_EQ(bits, tensor::float_to_bfloat16(f32[static_cast<size_t>(r * width + i)])) << r << " " << i;
      }
      for (int64_t b = 0; b < width / 32; ++b) {
        const float* x = f32.data() + r * width + b * 32;
        float top = 0;
        for (int64_t i = 0; i < 32; ++i) top = std::max(top, std::fabs(x[i]));
        const std::byte* row = q8.data() + r * row_stride(ActivationFormat::q8, width);
        int32_t sum = 0;
        for (int64_t i = 0; i < 32; ++i) {
          const auto want = static_cast<int8_t>(std::nearbyint(x[i] / (top / 127.0F)));
          ASSERT_EQ(static_cast<int8_t>(row[b * 32 + i]), want);
          sum += want;
        }
        float scales[2];
        std::memcpy(scales, row + q8_quants_bytes(width) + b * 8, 8);
        ASSERT_EQ(scales[0], top / 127.0F);
        ASSERT_EQ(scales[1], top / 127.0F * static_cast<float>(sum));
      }
    }
  }
}

}  // namespace
}  // namespace minfer::cuda
