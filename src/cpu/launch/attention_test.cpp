// Attention of every instruction set against the scalar oracle (absolute error 2e-5 for values of unit size: f32 sums
// of up to 600 terms), and bit for bit against itself: other tiles, other batches, other thread counts. Pages are
// filled with NaN before tokens are appended, page ids are shuffled, and the scratch is exactly as large as promised.
#include "cpu/launch/attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "base/error.hpp"
#include "cpu/launch/activation.hpp"
#include "cpu/launch/kv_append.hpp"
#include "cpu/launch/kv_test_data.hpp"
#include "cpu/runtime/memory.hpp"

namespace minfer::cpu {
namespace {

constexpr float kTolerance = 2e-5F;

struct Row {
  int32_t sequence;
  int32_t position;
};
using Bytes = std::vector<std::byte>;

std::vector<Isa> vector_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::avx2, Isa::avxvnni, Isa::avx512, Isa::amx}) {
    if (isa_available(isa)) isas.push_back(isa);
  }
  return isas;
}

AttentionSpec make_spec(int64_t kv_heads, int64_t group, int64_t head_dim, KvFormat format) {
  AttentionSpec spec;
  spec.kv = {kv_heads, head_dim, head_dim, format, format};
  spec.heads = kv_heads * group;
  spec.scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  return spec;
}

// Sequences of random tokens in a cache, with a query for every token.
class Cache {
 public:
  Cache(const AttentionSpec& spec, std::vector<int64_t> lengths) : spec_(spec), lengths_(std::move(lengths)) {
    int32_t pages = 3;  // never used ones among them
    for (const int64_t length : lengths_) pages += static_cast<int32_t>((length + 63) / 64);
    std::vector<int32_t> ids(pages);
    std::iota(ids.begin(), ids.end(), 0);
    std::mt19937 random(11);
    std::shuffle(ids.begin(), ids.end(), random);
    k_pages_.assign(pages * kv_k_page_bytes(spec.kv), std::byte{0xFF});
    v_pages_.assign(pages * kv_v_page_bytes(spec.kv), std::byte{0xFF});
    std::normal_distribution<float> normal(0.0F, 1.0F);
    const auto fill = [&](std::vector<float>& values, int64_t size) {
      values.resize(size);
      std::generate(values.begin(), values.end(), [&] { return normal(random); });
    };
    size_t next = 0;
    for (const int64_t length : lengths_) {
      std::vector<int32_t>& table = tables_.emplace_back();
      for (int64_t i = 0; i < length; i += 64) table.push_back(ids[next++]);
      fill(queries_.emplace_back(), length * spec.heads * spec.kv.head_dim_k);
      std::vector<float> k;
      std::vector<float> v;
      fill(k, length * spec.kv.kv_heads * spec.kv.head_dim_k);
      fill(v, length * spec.kv.kv_heads * spec.kv.head_dim_v);
      append(table, length, k, v);
    }
  }

  // Every token of a sequence from `begin` on.
  std::vector<Row> rows_of(int32_t sequence, int64_t begin, int64_t end) const {
    std::vector<Row> rows;
    for (int64_t p = begin; p < end; ++p) rows.push_back({sequence, static_cast<int32_t>(p)});
    return rows;
  }
  std::vector<int32_t>& table(int32_t sequence) { return tables_[sequence]; }
  std::byte* v_of(int32_t sequence, int64_t position) {
    return v_pages_.data() + tables_[sequence][position / 64] * kv_v_page_bytes(spec_.kv) +
           kv_v_offset(spec_.kv, 0, position % 64, 0);
  }

  // The output bytes of each row.
  std::vector<Bytes> run(Isa isa, int threads, const std::vector<Row>& rows) {
    std::vector<int32_t> row_sequence;
    std::vector<int32_t> row_position;
    std::vector<float> q;
    const int64_t width = spec_.heads * spec_.kv.head_dim_k;
    for (const Row& row : rows) {
      row_sequence.push_back(row.sequence);
      row_position.push_back(row.position);
      const float* source = queries_[row.sequence].data() + row.position * width;
      q.insert(q.end(), source, source + width);
      q.resize(q.size() + 1);  // rows one float further apart than they are long
    }
    std::vector<AttentionSequence> sequences;
    for (size_t i = 0; i < lengths_.size(); ++i) sequences.push_back({tables_[i].data(), lengths_[i]});
    const int64_t out_width = spec_.heads * spec_.kv.head_dim_v;
    AttentionArgs args;
    args.spec = spec_;
    args.rows = static_cast<int64_t>(rows.size());
    args.row_sequence = row_sequence.data();
    args.row_position = row_position.data();
    args.sequences = sequences.data();
    args.q = q.data();
    args.q_stride = width + 1;
    args.k_base = k_pages_.data();
    args.v_base = v_pages_.data();
    args.k_page_stride = kv_k_page_bytes(spec_.kv);
    args.v_page_stride = kv_v_page_bytes(spec_.kv);
    args.out_stride = spec_.output == AttentionOutput::f32 ? out_width * 4 : q8_row_bytes(out_width);
    Bytes out(args.rows * args.out_stride, std::byte{0xEE});
    args.out = out.data();
    const AttentionCapacity capacity = {args.rows, *std::max_element(lengths_.begin(), lengths_.end()), threads};
    std::vector<double> scratch(attention_scratch_bytes(spec_, capacity) / 8);
    ThreadPool pool(threads);
    pool.run([&](Worker& worker) {
      launch_attention(isa, worker, args, capacity, std::as_writable_bytes(std::span(scratch)));
    });
    std::vector<Bytes> result;
    for (int64_t r = 0; r < args.rows; ++r) {
      result.emplace_back(out.begin() + r * args.out_stride, out.begin() + (r + 1) * args.out_stride);
    }
    return result;
  }

  AttentionSpec& spec() { return spec_; }

  // The same tokens as f32.
  Cache decoded() {
    Cache result = *this;
    KvLayerSpec& kv = result.spec_.kv;
    kv.k_format = kv.v_format = KvFormat::f32;
    const auto pages = static_cast<int64_t>(k_pages_.size()) / kv_k_page_bytes(spec_.kv);
    result.k_pages_.assign(static_cast<size_t>(pages * kv_k_page_bytes(kv)), std::byte{0xFF});
    result.v_pages_.assign(static_cast<size_t>(pages * kv_v_page_bytes(kv)), std::byte{0xFF});
    KvPages from(spec_.kv, 0);
    from.k = k_pages_;
    from.v = v_pages_;
    for (size_t s = 0; s < tables_.size(); ++s) {
      std::vector<float> keys;
      std::vector<float> values;
      for (int64_t p = 0; p < lengths_[s]; ++p) {
        const int64_t slot = tables_[s][static_cast<size_t>(p / 64)] * int64_t{64} + p % 64;
        const std::vector<float> k = from.key(slot);
        const std::vector<float> v = from.value(slot);
        keys.insert(keys.end(), k.begin(), k.end());
        values.insert(values.end(), v.begin(), v.end());
      }
      result.append(tables_[s], lengths_[s], keys, values);
    }
    return result;
  }

 private:
  void append(const std::vector<int32_t>& table, int64_t length, const std::vector<float>& k,
              const std::vector<float>& v) {
    std::vector<int64_t> slots(length);
    for (int64_t i = 0; i < length; ++i) slots[i] = table[i / 64] * int64_t{64} + i % 64;
    KvAppendArgs args;
    args.spec = spec_.kv;
    args.tokens = length;
    args.slots = slots.data();
    args.k = k.data();
    args.k_stride = spec_.kv.kv_heads * spec_.kv.head_dim_k;
    args.v = v.data();
    args.v_stride = spec_.kv.kv_heads * spec_.kv.head_dim_v;
    args.k_base = k_pages_.data();
    args.v_base = v_pages_.data();
    args.k_page_stride = kv_k_page_bytes(spec_.kv);
    args.v_page_stride = kv_v_page_bytes(spec_.kv);
    ThreadPool pool(1);
    pool.run([&](Worker& worker) { launch_kv_append(Isa::scalar, worker, args); });
  }

  AttentionSpec spec_;
  std::vector<int64_t> lengths_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<std::vector<float>> queries_;
  Bytes k_pages_;
  Bytes v_pages_;
};

std::vector<float> floats_of(const Bytes& row) {
  std::vector<float> values(row.size() / 4);
  std::memcpy(values.data(), row.data(), row.size());
  return values;
}

void expect_near_oracle(Cache& cache, const std::vector<Row>& rows, const std::string& what) {
  const std::vector<Bytes> expected = cache.run(Isa::scalar, 2, rows);
  for (const Isa isa : vector_isas()) {
    const std::vector<Bytes> got = cache.run(isa, 2, rows);
    for (size_t r = 0; r < rows.size(); ++r) {
      const std::vector<float> a = floats_of(expected[r]);
      const std::vector<float> b = floats_of(got[r]);
      for (size_t i = 0; i < a.size(); ++i) {
        ASSERT_TRUE(std::abs(a[i] - b[i]) <= kTolerance)
            << what << " " << isa_name(isa) << " sequence " << rows[r].sequence << " position " << rows[r].position
            << " element " << i << ": " << b[i] << ", expected " << a[i];
      }
    }
  }
}

const std::vector<int64_t> kLengths = {1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 600};

// The last token of every sequence, and stretches of the longest: whole tiles, a rest, and a few rows.
std::vector<Row> mixed_rows(const Cache& cache) {
  std::vector<Row> rows;
  for (size_t i = 0; i + 1 < kLengths.size(); ++i)
    rows.push_back({static_cast<int32_t>(i), static_cast<int32_t>(kLengths[i] - 1)});
  const auto longest = static_cast<int32_t>(kLengths.size() - 1);
  for (const auto& [begin, end] : {std::pair{240, 270}, {500, 503}, {599, 600}}) {
    const std::vector<Row> some = cache.rows_of(longest, begin, end);
    rows.insert(rows.end(), some.begin(), some.end());
  }
  return rows;
}

TEST(Attention, HeadSizesAgreeWithTheOracle) {
  for (const int64_t head_dim : {8, 64, 72, 80, 96, 128, 192, 256}) {
    for (const KvFormat format : kKvFormats) {
      if (!kv_format_fits(format, head_dim)) continue;
      Cache cache(make_spec(2, 2, head_dim, format), kLengths);
      expect_near_oracle(cache, mixed_rows(cache), format_text(format) + " head size " + std::to_string(head_dim));
    }
  }
}

TEST(Attention, GroupSizesAgreeWithTheOracle) {
  for (const int64_t group : {1, 2, 3, 5, 6, 7, 8, 20}) {
    for (const KvFormat format : kKvFormats) {
      Cache cache(make_spec(2, group, 64, format), kLengths);
      expect_near_oracle(cache, mixed_rows(cache), format_text(format) + " group " + std::to_string(group));
    }
  }
}

TEST(Attention, WindowsSoftcapAndSinksAgreeWithTheOracle) {
  const std::vector<float> sinks = {0.5F, -2.0F, 4.0F, -HUGE_VALF};
  for (const int64_t window : {1, 16, 100, 512}) {
    Cache cache(make_spec(2, 2, 64, KvFormat::f32), kLengths);
    cache.spec().window = window;
    expect_near_oracle(cache, mixed_rows(cache), "window " + std::to_string(window));
    cache.spec().softcap = 3.0F;
    expect_near_oracle(cache, mixed_rows(cache), "softcap, window " + std::to_string(window));
    cache.spec().sinks = sinks.data();
    expect_near_oracle(cache, mixed_rows(cache), "sinks, softcap, window " + std::to_string(window));
  }
}

TEST(Attention, DifferentKeyAndValueSizesAndFormats) {
  for (const KvFormat k_format : kKvFormats) {
    for (const KvFormat v_format : kKvFormats) {
      AttentionSpec spec = make_spec(2, 3, 96, k_format);
      spec.kv.head_dim_v = 64;
      spec.kv.v_format = v_format;
      Cache cache(spec, kLengths);
      expect_near_oracle(cache, mixed_rows(cache), "K 96 " + format_text(k_format) + ", V 64 " + format_text(v_format));
    }
  }
}

// An oracle of its own for what the formats mean: a cache of another format and an f32 cache of the values that it
// holds give the same result, bit for bit where K is f32 or converted exactly.
TEST(Attention, FormatsEqualTheirDecodedValues) {
  for (const KvFormat format : {KvFormat::f16, KvFormat::bf16, KvFormat::q8_0}) {
    Cache cache(make_spec(2, 7, 128, format), kLengths);
    Cache decoded = cache.decoded();
    const std::vector<Row> rows = mixed_rows(cache);
    for (const Isa isa : available_isas()) {
      const std::vector<Bytes> got = cache.run(isa, 2, rows);
      const std::vector<Bytes> want = decoded.run(isa, 2, rows);
      if (format != KvFormat::q8_0 || isa == Isa::scalar) {
        ASSERT_EQ(got, want) << isa_name(isa) << " " << format_text(format);
        continue;
      }
      for (size_t r = 0; r < rows.size(); ++r) {
        const std::vector<float> a = floats_of(want[r]);
        const std::vector<float> b = floats_of(got[r]);
        for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], kTolerance) << isa_name(isa) << " row " << r;
      }
    }
  }
}

// A worked example: two equal keys, so that the result is the mean of the values.
TEST(Attention, EqualScoresGiveTheMean) {
  AttentionSpec spec = make_spec(1, 1, 8, KvFormat::f32);
  spec.scale = 0.0F;
  Cache cache(spec, {2});
  for (int64_t d = 0; d < 8; ++d) {
    const float first = 1.0F + static_cast<float>(d);
    const float second = 3.0F;
    std::memcpy(cache.v_of(0, 0) + 4 * d, &first, 4);
    std::memcpy(cache.v_of(0, 1) + 4 * d, &second, 4);
  }
  for (const Isa isa : kAllIsas) {
    if (!isa_available(isa)) continue;
    const std::vector<float> out = floats_of(cache.run(isa, 1, {{0, 1}})[0]);
    for (int64_t d = 0; d < 8; ++d) EXPECT_EQ(out[d], (4.0F + static_cast<float>(d)) / 2.0F) << isa_name(isa);
  }
}

TEST(Attention, ChunkedPrefillAndDecodeAreBitIdentical) {
  for (const int64_t window : {0, 16, 130}) {
    for (const KvFormat format : kKvFormats) {
      Cache cache(make_spec(2, 7, kv_has_scales(format) ? 96 : 72, format), {300, 600});
      cache.spec().window = window;
      for (const Isa isa : vector_isas()) {
        const std::vector<Bytes> whole = cache.run(isa, 1, cache.rows_of(0, 0, 300));
        std::vector<Bytes> parts = cache.run(isa, 2, cache.rows_of(0, 0, 100));
        for (Bytes& row : cache.run(isa, 2, cache.rows_of(0, 100, 300))) parts.push_back(std::move(row));
        ASSERT_EQ(whole, parts) << isa_name(isa) << " window " << window;
        for (int32_t p = 0; p < 300; ++p) {
          ASSERT_EQ(whole[p], cache.run(isa, 1, {{0, p}})[0]) << isa_name(isa) << " window " << window << " at " << p;
        }
      }
    }
  }
}

void expect_threads_and_batch_do_not_matter(KvFormat format) {
  Cache cache(make_spec(3, 2, 64, format), kLengths);
  const std::vector<Row> rows = mixed_rows(cache);
  for (const Isa isa : kAllIsas) {
    if (!isa_available(isa)) continue;
    const std::vector<Bytes> one = cache.run(isa, 1, rows);
    ASSERT_EQ(one, cache.run(isa, 2, rows)) << isa_name(isa);
    ASSERT_EQ(one, cache.run(isa, 3, rows)) << isa_name(isa);
    std::vector<size_t> order(rows.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), std::mt19937(3));
    std::vector<Row> shuffled;
    for (const size_t r : order) shuffled.push_back(rows[r]);
    const std::vector<Bytes> other = cache.run(isa, 2, shuffled);
    for (size_t i = 0; i < order.size(); ++i)
      ASSERT_EQ(one[order[i]], other[i]) << isa_name(isa) << " row " << order[i];
  }
}

TEST(Attention, ThreadsAndBatchDoNotMatter) {
  for (const KvFormat format : kKvFormats) expect_threads_and_batch_do_not_matter(format);
}

// Partial results of 200 decodes do not fit the scratch at once: they go in waves.
TEST(Attention, WavesOfManySequences) {
  Cache cache(make_spec(2, 8, 256, KvFormat::f16), {600, 580});
  std::vector<Row> rows;
  for (int32_t i = 0; i < 100; ++i) rows.insert(rows.end(), {{0, 500 + i}, {1, 479 + i}});
  for (const Isa isa : vector_isas()) {
    const std::vector<Bytes> batch = cache.run(isa, 2, rows);
    for (size_t r = 0; r < rows.size(); r += 9) ASSERT_EQ(batch[r], cache.run(isa, 1, {rows[r]})[0]) << r;
  }
}

TEST(Attention, UnseenTokensContributeNothing) {
  Cache cache(make_spec(1, 2, 64, KvFormat::f32), {300});
  cache.spec().window = 90;
  for (const Isa isa : vector_isas()) {
    const std::vector<Bytes> clean = cache.run(isa, 2, cache.rows_of(0, 150, 200));
    Cache soiled = cache;
    for (int64_t p = 0; p < 300; ++p) {
      if (p < 150 - 89 || p >= 200) std::memset(soiled.v_of(0, p), 0xFF, 64 * 4);
    }
    EXPECT_EQ(clean, soiled.run(isa, 2, soiled.rows_of(0, 150, 200)));
    std::memset(soiled.v_of(0, 199), 0xFF, 64 * 4);  // only the last row sees it
    const std::vector<Bytes> last = soiled.run(isa, 2, soiled.rows_of(0, 150, 200));
    EXPECT_TRUE(std::equal(clean.begin(), clean.end() - 1, last.begin()));
    EXPECT_TRUE(std::isnan(floats_of(last.back())[0]));
    soiled.table(0)[0] = -1;  // a page outside every window may be gone
    EXPECT_EQ(last[10], soiled.run(isa, 1, {{0, 160}})[0]);
  }
}

TEST(Attention, QuantizedOutputIsTheQuantizedRow) {
  for (const auto& [kv_heads, group, head_dim] : {std::tuple{2, 2, 128}, {1, 3, 96}, {3, 1, 32}}) {
    Cache cache(make_spec(kv_heads, group, head_dim, KvFormat::f16), kLengths);
    const std::vector<Row> rows = mixed_rows(cache);
    const int64_t width = int64_t{kv_heads} * group * head_dim;
    for (const Isa isa : vector_isas()) {
      cache.spec().output = AttentionOutput::f32;
      const std::vector<Bytes> plain = cache.run(isa, 2, rows);
      cache.spec().output = AttentionOutput::q8;
      const std::vector<Bytes> quantized = cache.run(isa, 2, rows);
      for (size_t r = 0; r < rows.size(); ++r) {
        const std::vector<float> x = floats_of(plain[r]);
        const Q8Row row = q8_row(quantized[r].data(), 0, width);
        for (int64_t b = 0; b < width / 32; ++b) {
          float top = 0.0F;
          for (int64_t i = 0; i < 32; ++i) top = std::max(top, std::abs(x[b * 32 + i]));
          ASSERT_EQ(row.scales[b], top / 127.0F);
          int sum = 0;
          for (int64_t i = 0; i < 32; ++i) {
            ASSERT_EQ(row.quants[b * 32 + i], std::nearbyint(x[b * 32 + i] / row.scales[b]));
            sum += row.quants[b * 32 + i];
          }
          ASSERT_EQ(row.sums[b], row.scales[b] * static_cast<float>(sum));
        }
        for (int64_t i = width; i < q8_quants_bytes(width); ++i) ASSERT_EQ(row.quants[i], 0);
      }
    }
  }
}

TEST(Attention, PredicatesAndScratch) {
  AttentionSpec spec = make_spec(2, 3, 20, KvFormat::f16);
  EXPECT_TRUE(supports_attention(Isa::scalar, spec));
  EXPECT_FALSE(supports_attention(Isa::avx512, spec));
  spec.kv.head_dim_v = 24;
  EXPECT_TRUE(supports_attention(Isa::avx2, spec));
  spec.output = AttentionOutput::q8;
  EXPECT_FALSE(supports_attention(Isa::avx2, spec));
  EXPECT_FALSE(supports_attention(Isa::scalar, spec));
  spec.kv.head_dim_v = 32;
  EXPECT_TRUE(supports_attention(Isa::avx512, spec));
  spec.heads = 5;
  EXPECT_FALSE(supports_attention(Isa::scalar, spec));
  spec.heads = 6;
  spec.kv.k_format = KvFormat::q8_0;  // keys of 20
  EXPECT_FALSE(supports_attention(Isa::avx512, spec));
  spec.kv.head_dim_k = 32;
  spec.kv.v_format = KvFormat::q8_0;
  EXPECT_TRUE(supports_attention(Isa::avx512, spec));
  spec.kv.head_dim_v = 40;
  EXPECT_FALSE(supports_attention(Isa::avx512, spec));
  spec.kv.head_dim_v = 32;
  EXPECT_FALSE(prefers_split_attention(96, 4));
  EXPECT_FALSE(prefers_split_attention(8, 1));
  EXPECT_TRUE(prefers_split_attention(8, 2));
  spec.heads = 6;
  const int64_t one = attention_scratch_bytes(spec, {1, 4096, 1});
  EXPECT_GT(attention_scratch_bytes(spec, {1, 4096, 2}), one);
  EXPECT_GT(attention_scratch_bytes(spec, {512, 4096, 1}), one);
  EXPECT_GT(attention_scratch_bytes(spec, {1, 1 << 20, 1}), one);
  EXPECT_THROW(attention_scratch_bytes(spec, {1, int64_t{1} << 61, 1}), Error) << "beyond 64 bits";
}

TEST(Attention, OddHeadSizesRunInScalar) {
  Cache cache(make_spec(1, 2, 13, KvFormat::f32), {40});
  const std::vector<float> out = floats_of(cache.run(Isa::scalar, 1, {{0, 0}})[0]);
  for (int64_t d = 0; d < 13; ++d) {  // one visible token: its value
    float v = 0.0F;
    std::memcpy(&v, cache.v_of(0, 0) + 4 * d, 4);
    EXPECT_EQ(out[d], v);
    EXPECT_EQ(out[13 + d], v);
  }
}

}  // namespace
}  // namespace minfer::cpu
