// Linear products: every type on every available instruction set against sums in double precision of the decoded
// weights and the activations that the kernel really read, within a bound that counts roundings; and the same bits
// whatever the batch, the number of rows, of threads, or of tasks in a call.
#include "cpu/launch/linear.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cpu/launch/linear_test_data.hpp"
#include "cpu/runtime/memory.hpp"

namespace minfer::cpu {
namespace {

using tensor::DType;
using testing::kLinearTypes;
using testing::LinearType;
using testing::Q8Rows;

constexpr double kEpsilon = 0x1p-24;  // half a unit in the last place, relative

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : kAllIsas) {
    if (isa_available(isa)) isas.push_back(isa);
  }
  return isas;
}

struct PackedWeight {
  HugeBuffer memory;
  LinearWeight weight;
};

PackedWeight pack(Isa isa, DType dtype, int64_t rows, int64_t k, const std::byte* source) {
  const Layout layout = *linear_layout(isa, dtype);
  PackedWeight packed{HugeBuffer(static_cast<size_t>(panel_matrix_bytes(dtype, layout, rows, k)), "test weights"), {}};
  pack_panels(dtype, layout, rows, k, source, packed.memory.data());
  packed.weight = {dtype, layout, rows, k, packed.memory.data()};
  return packed;
}

std::vector<float> random_floats(int64_t count, std::mt19937& random) {
  std::normal_distribution<float> normal(0.1f, 1.0f);
  std::vector<float> x(static_cast<size_t>(count));
  for (float& value : x) value = normal(random);
  return x;
}

// Inputs in both forms: `exact` are the floats that q8 stands for, so that all kernels have the same problem.
struct Inputs {
  int64_t rows;
  int64_t k;
  Q8Rows q8;
  std::vector<float> exact;
  ActivationRows first(int64_t count) const { return {count, exact.data(), k, q8.data}; }
};

Inputs make_inputs(int64_t rows, int64_t k, std::vector<float> x) {
  Inputs inputs{rows, k, testing::quantize_rows(x, k), {}};
  inputs.exact = testing::dequantize_rows(inputs.q8, rows, k);
  return inputs;
}

std::vector<float> run(Isa isa, ThreadPool& pool, const ActivationRows& x, const LinearWeight& weight) {
  std::vector<float> out(static_cast<size_t>(x.rows * weight.rows), -77.0f);
  pool.run([&](Worker& worker) {
    const LinearTask task{weight, nullptr, nullptr, out.data(), weight.rows};
    launch_linear(isa, worker, x, {&task, 1});
  });
  return out;
}

// Exact products and, for each, the sum of magnitudes that roundings are relative to: |scale q x| + |min x|.
struct Reference {
  std::vector<double> value;
  std::vector<double> magnitude;
};

Reference make_reference(const LinearType& type, std::vector<std::byte> source, int64_t n, int64_t k,
                         const std::vector<float>& x) {
  const tensor::DTypeInfo& info = tensor::dtype_info(type.dtype);
  const int64_t blocks = n * k / info.block_elements;
  std::vector<float> w(static_cast<size_t>(n * k));
  std::vector<float> scaled(w.size());  // without the minima
  info.dequantize(source.data(), blocks, w.data());
  for (int64_t b = 0; b < blocks && type.min_at >= 0; ++b) {
    testing::put_half(source.data() + b * info.block_bytes + type.min_at, 0.0f);
  }
  info.dequantize(source.data(), blocks, scaled.data());
  Reference reference;
  const auto columns = static_cast<int64_t>(x.size()) / k;
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < n; ++r) {
      double value = 0;
      double magnitude = 0;
      for (int64_t i = 0; i < k; ++i) {
        const auto at = static_cast<size_t>(r * k + i);
        const double a = static_cast<double>(x[static_cast<size_t>(c * k + i)]);
        value += static_cast<double>(w[at]) * a;
        const double parts = std::abs(static_cast<double>(scaled[at])) +
                             std::abs(static_cast<double>(scaled[at]) - static_cast<double>(w[at]));
        magnitude += parts * std::abs(a);
      }
      reference.value.push_back(value);
      reference.magnitude.push_back(magnitude);
    }
  }
  return reference;
}

// The activations as a kernel reads them: that of BF16 on AVX-512 rounds them to its type.
std::vector<float> read_by(Isa isa, DType dtype, std::vector<float> x) {
  if (!is_avx512(isa) || dtype != DType::bf16) return x;
  for (float& value : x) value = tensor::bfloat16_to_float(tensor::float_to_bfloat16(value));
  return x;
}

// Roundings along the longest chain: for q8 up to four a block of 32 (two scales, two minima); for f32 one an element,
// or a sixteenth of them in 16 partial sums; and five in what makes up a term (decoded weight, activation, their
// scales).
double rounding_count(Isa isa, DType dtype, int64_t k) {
  if (isa == Isa::scalar) return static_cast<double>(k) / 16 + 4 + 5;
  return static_cast<double>(linear_reads_q8(isa, dtype) ? k / 32 * 4 : k) + 5;
}

void expect_close(const std::vector<float>& found, const Reference& reference, double roundings) {
  for (size_t i = 0; i < found.size(); ++i) {
    const double bound = roundings * kEpsilon * reference.magnitude[i];
    ASSERT_NEAR(static_cast<double>(found[i]), reference.value[i], bound) << i;
  }
}

TEST(Linear, AgreesWithExactSums) {
  ThreadPool pool(2);
  const int64_t n = 100;
  const int64_t batch = 17;
  for (const Isa isa : available_isas()) {
    for (const LinearType& type : kLinearTypes) {
      for (const int64_t k : {256, 1280}) {
        SCOPED_TRACE(std::string(isa_name(isa)) + " " + std::string(tensor::dtype_info(type.dtype).name));
        std::mt19937 random(static_cast<uint32_t>(k));
        const std::vector<std::byte> source = testing::random_rows(type, n, k, random);
        const Inputs x = make_inputs(batch, k, random_floats(batch * k, random));
        const Reference reference = make_reference(type, source, n, k, read_by(isa, type.dtype, x.exact));
        const PackedWeight packed = pack(isa, type.dtype, n, k, source.data());
        expect_close(run(isa, pool, x.first(batch), packed.weight), reference, rounding_count(isa, type.dtype, k));
      }
    }
  }
}

// Types with blocks of 32 or 1 take any multiple of them.
TEST(Linear, TailsAlongK) {
  ThreadPool pool(1);
  for (const Isa isa : available_isas()) {
    for (const LinearType& type : kLinearTypes) {
      if (tensor::dtype_info(type.dtype).block_elements == 256) continue;
      for (const int64_t k : {32, 96, 288, 544}) {
        SCOPED_TRACE(std::string(isa_name(isa)) + " " + std::string(tensor::dtype_info(type.dtype).name));
        std::mt19937 random(static_cast<uint32_t>(k));
        const std::vector<std::byte> source = testing::random_rows(type, 20, k, random);
        for (const int64_t batch : {7, 67}) {
          const Inputs x = make_inputs(batch, k, random_floats(batch * k, random));
          const Reference reference = make_reference(type, source, 20, k, read_by(isa, type.dtype, x.exact));
          const PackedWeight packed = pack(isa, type.dtype, 20, k, source.data());
          expect_close(run(isa, pool, x.first(batch), packed.weight), reference, rounding_count(isa, type.dtype, k));
        }
      }
    }
  }
}

// Plain types take any k; in the stream and in the sweep.
TEST(Linear, PlainTypesTakeOddNumbers) {
  ThreadPool pool(1);
  constexpr int64_t kRows = 20;
  for (const Isa isa : available_isas()) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      for (const int64_t k : {1, 7, 33, 545}) {
        for (const int64_t columns : {1, 3, 9}) {
          SCOPED_TRACE(fmt::format("{} {} k {} columns {}", isa_name(isa), tensor::dtype_info(dtype).name, k, columns));
          std::mt19937 random(static_cast<uint32_t>(k));
          const LinearType type{dtype, -1, -1};
          const std::vector<std::byte> source = testing::random_rows(type, kRows, k, random);
          const std::vector<float> x = random_floats(columns * k, random);
          const Reference reference = make_reference(type, source, kRows, k, read_by(isa, dtype, x));
          const PackedWeight packed = pack(isa, dtype, kRows, k, source.data());
          expect_close(run(isa, pool, {columns, x.data(), k, nullptr}, packed.weight), reference,
                       rounding_count(isa, dtype, k));
        }
      }
    }
  }
}

// A product's bits depend on its row and its column only.
TEST(Linear, SameBitsForEveryBatchShapeAndThreadCount) {
  const int64_t n = 100;
  const int64_t k = 768;
  const int64_t batch = 257;
  ThreadPool one(1);
  ThreadPool two(2);
  ThreadPool three(3);
  for (const Isa isa : available_isas()) {
    for (const LinearType& type : kLinearTypes) {
      SCOPED_TRACE(std::string(isa_name(isa)) + " " + std::string(tensor::dtype_info(type.dtype).name));
      std::mt19937 random(5);
      const std::vector<std::byte> source = testing::random_rows(type, n, k, random);
      const Inputs x = make_inputs(batch, k, random_floats(batch * k, random));
      const PackedWeight whole = pack(isa, type.dtype, n, k, source.data());
      const std::vector<float> all = run(isa, one, x.first(batch), whole.weight);
      for (const int64_t rows : {1, 7, 16, 17, 33, 100}) {
        const PackedWeight packed = pack(isa, type.dtype, rows, k, source.data());
        for (const int64_t count : {1, 2, 3, 4, 5, 8, 16, 17, 48, 49, 64, 257}) {
          if (isa == Isa::scalar && count * rows > 1000) continue;
          ThreadPool& pool = count % 3 == 0 ? one : count % 2 == 0 ? two : three;
          const std::vector<float> part = run(isa, pool, x.first(count), packed.weight);
          for (int64_t c = 0; c < count; ++c) {
            for (int64_t r = 0; r < rows; ++r) {
              ASSERT_EQ(part[static_cast<size_t>(c * rows + r)], all[static_cast<size_t>(c * n + r)])
                  << rows << " rows, " << count << " columns: at " << r << ", " << c;
            }
          }
        }
      }
    }
  }
}

// Other integer sums are the same integers: AVX-VNNI has AVX2's bits, AMX those of AVX-512.
TEST(Linear, SetsThatShareATileHaveTheSameBits) {
  constexpr int64_t kRows = 52, kColumns = 67, kDepth = 1280;
  ThreadPool pool(1);
  for (const auto& [plain, other] : {std::pair{Isa::avx2, Isa::avxvnni}, std::pair{Isa::avx512, Isa::amx}}) {
    if (!isa_available(other)) continue;
    for (const LinearType& type : kLinearTypes) {
      std::mt19937 random(6);
      const std::vector<std::byte> source = testing::random_rows(type, kRows, kDepth, random);
      const Inputs x = make_inputs(kColumns, kDepth, random_floats(kColumns * kDepth, random));
      const PackedWeight packed = pack(plain, type.dtype, kRows, kDepth, source.data());
      for (const int64_t columns : {int64_t{1}, int64_t{9}, kColumns}) {
        EXPECT_EQ(run(plain, pool, x.first(columns), packed.weight), run(other, pool, x.first(columns), packed.weight))
            << isa_name(other) << " " << tensor::dtype_info(type.dtype).name << ", " << columns << " columns";
      }
    }
  }
}

// Every quant, scale and activation at its extreme: nothing may saturate.
TEST(Linear, ExtremesDoNotSaturate) {
  ThreadPool pool(1);
  const int64_t n = 17;
  const int64_t k = 256;
  for (const Isa isa : available_isas()) {
    for (const LinearType& type : kLinearTypes) {
      if (tensor::dtype_info(type.dtype).block_elements == 1) continue;
      const tensor::DTypeInfo& info = tensor::dtype_info(type.dtype);
      for (const int fill : {0x00, 0x0F, 0x77, 0x7F, 0x80, 0x88, 0xF0, 0xFF}) {
        for (const float sign : {1.0f, -1.0f}) {
          SCOPED_TRACE(std::string(isa_name(isa)) + " " + std::string(info.name) + " " + std::to_string(fill));
          std::vector<std::byte> source(static_cast<size_t>(n * tensor::row_bytes(type.dtype, k)),
                                        static_cast<std::byte>(fill));
          for (size_t at = 0; at < source.size(); at += static_cast<size_t>(info.block_bytes)) {
            if (type.scale_at >= 0) testing::put_half(source.data() + at + type.scale_at, 1.0f);
            if (type.min_at >= 0) testing::put_half(source.data() + at + type.min_at, 1.0f);
            if (type.dtype == DType::mxfp4) source[at] = std::byte{127};
          }
          for (const int64_t batch : {1, 9, 67}) {
            const Inputs x = make_inputs(batch, k, std::vector<float>(static_cast<size_t>(batch * k), sign));
            const Reference reference = make_reference(type, source, n, k, read_by(isa, type.dtype, x.exact));
            const PackedWeight packed = pack(isa, type.dtype, n, k, source.data());
            expect_close(run(isa, pool, x.first(batch), packed.weight), reference, rounding_count(isa, type.dtype, k));
          }
        }
      }
    }
  }
}

TEST(Linear, ZeroActivationsGiveZeros) {
  ThreadPool pool(1);
  for (const Isa isa : available_isas()) {
    for (const LinearType& type : kLinearTypes) {
      std::mt19937 random(7);
      const std::vector<std::byte> source = testing::random_rows(type, 5, 256, random);
      const Inputs x = make_inputs(6, 256, std::vector<float>(6 * 256, 0.0f));
      const PackedWeight packed = pack(isa, type.dtype, 5, 256, source.data());
      for (const float value : run(isa, pool, x.first(6), packed.weight)) ASSERT_EQ(value, 0.0f);
    }
  }
}

// Three tasks of different types and sizes with bias and residual, in one call, on two threads.
TEST(Linear, TasksShareACall) {
  const int64_t k = 256;
  const int64_t batch = 6;
  ThreadPool pool(2);
  std::mt19937 random(11);
  const Inputs x = make_inputs(batch, k, random_floats(batch * k, random));
  const LinearType types[] = {{DType::q4_k, 0, 2}, {DType::f16, -1, -1}, {DType::q6_k, 208, -1}};
  const int64_t sizes[] = {96, 33, 16};
  for (const Isa isa : available_isas()) {
    std::vector<PackedWeight> weights;
    std::vector<std::vector<float>> outs;
    std::vector<float> bias = random_floats(100, random);
    std::vector<LinearTask> tasks;
    std::vector<std::vector<float>> expected;
    for (size_t t = 0; t < 3; ++t) {
      const std::vector<std::byte> source = testing::random_rows(types[t], sizes[t], k, random);
      weights.push_back(pack(isa, types[t].dtype, sizes[t], k, source.data()));
      outs.push_back(random_floats(batch * sizes[t], random));
      expected.push_back(run(isa, pool, x.first(batch), weights[t].weight));
      for (int64_t i = 0; i < batch * sizes[t]; ++i) {
        const auto at = static_cast<size_t>(i);
        expected[t][at] += bias[static_cast<size_t>(i % sizes[t])];
        expected[t][at] += outs[t][at];
      }
    }
    for (size_t t = 0; t < 3; ++t) {
      tasks.push_back({weights[t].weight, bias.data(), outs[t].data(), outs[t].data(), sizes[t]});
    }
    pool.run([&](Worker& worker) { launch_linear(isa, worker, x.first(batch), tasks); });
    EXPECT_EQ(outs, expected) << isa_name(isa);
  }
}

// The gated form has the bits of its parts: two products, then the row kernel, floats and q8 alike.
TEST(Linear, GatedEqualsItsParts) {
  const int64_t n = 160;
  const int64_t k = 512;
  std::mt19937 random(13);
  const std::vector<float> gate_bias = random_floats(n, random);
  const LinearType gate_type{DType::q4_k, 0, 2};
  const LinearType up_type{DType::q5_0, 0, -1};
  const std::vector<std::byte> gate_rows = testing::random_rows(gate_type, n, k, random);
  const std::vector<std::byte> up_rows = testing::random_rows(up_type, n, k, random);
  for (const Isa isa : available_isas()) {
    const PackedWeight gate = pack(isa, gate_type.dtype, n, k, gate_rows.data());
    const PackedWeight up = pack(isa, up_type.dtype, n, k, up_rows.data());
    for (const Activation activation : {Activation::silu, Activation::gelu_tanh, Activation::swiglu_oai}) {
      for (const int64_t batch : {1, 5, 130}) {
        ThreadPool pool(batch == 5 ? 3 : 1);
        const Inputs x = make_inputs(batch, k, random_floats(batch * k, random));
        std::vector<float> gates = run(isa, pool, x.first(batch), gate.weight);
        const std::vector<float> ups = run(isa, pool, x.first(batch), up.weight);
        std::vector<float> expected(gates.size());
        HugeBuffer expected_q8(static_cast<size_t>(batch * q8_row_bytes(n)), "test");
        for (int64_t c = 0; c < batch; ++c) {
          for (int64_t i = 0; i < n; ++i) gates[static_cast<size_t>(c * n + i)] += gate_bias[static_cast<size_t>(i)];
          std::byte* row = expected_q8.data() + c * q8_row_bytes(n);
          auto* scales = reinterpret_cast<float*>(row + q8_quants_bytes(n));
          row_kernels(isa).gated(activation, gates.data() + c * n, ups.data() + c * n, n, expected.data() + c * n,
                                 {reinterpret_cast<int8_t*>(row), scales, scales + n / kQ8BlockElements});
        }
        std::vector<float> out(expected.size());
        HugeBuffer q8(expected_q8.size_bytes(), "test");
        std::fill_n(q8.data(), q8.size_bytes(), std::byte{0x55});
        pool.run([&](Worker& worker) {
          launch_linear_gated(
              isa, worker, x.first(batch),
              {activation, gate.weight, up.weight, gate_bias.data(), nullptr, out.data(), n, q8.data()});
        });
        ASSERT_EQ(out, expected) << isa_name(isa) << " " << batch;
        for (int64_t c = 0; c < batch; ++c) {
          // All but the bytes after the sums, which nothing reads.
          const auto used = static_cast<size_t>(q8_quants_bytes(n) + 8 * (n / kQ8BlockElements));
          const size_t at = static_cast<size_t>(c * q8_row_bytes(n));
          ASSERT_EQ(std::memcmp(q8.data() + at, expected_q8.data() + at, used), 0) << isa_name(isa) << " " << c;
        }
      }
    }
  }
}

TEST(Linear, PackingInParallelEqualsPacking) {
  std::mt19937 random(17);
  const LinearType type{DType::q6_k, 208, -1};
  const std::vector<std::byte> source = testing::random_rows(type, 133, 256, random);
  ThreadPool pool(3);
  for (const Isa isa : available_isas()) {
    const PackedWeight expected = pack(isa, type.dtype, 133, 256, source.data());
    HugeBuffer found(expected.memory.size_bytes(), "test");
    pool.run([&](Worker& worker) { launch_pack(worker, expected.weight, source.data(), found.data()); });
    EXPECT_EQ(std::memcmp(found.data(), expected.memory.data(), found.size_bytes()), 0) << isa_name(isa);
  }
}

TEST(Linear, CutFitsTheCache) {
  // Streaming: 64 rows of output a chunk, all columns.
  EXPECT_EQ(linear_cut(Layout::panel16, 1, 4096).panels, 4);
  EXPECT_EQ(linear_cut(Layout::panel8, 4, 4096).panels, 8);
  EXPECT_EQ(linear_cut(Layout::panel16, 4, 4096).columns, 4);
  EXPECT_EQ(linear_cut(Layout::panel16, 48, 4096).panels, 4);
  EXPECT_EQ(linear_cut(Layout::panel16, 48, 4096).columns, 48);
  // Sweeping: 32 rows; all columns while their activations fit, else even parts of them.
  EXPECT_EQ(linear_cut(Layout::panel16, 49, 4096).panels, 2);
  EXPECT_EQ(linear_cut(Layout::panel16, 192, 4096).columns, 192);
  EXPECT_EQ(linear_cut(Layout::panel16, 256, 4096).columns, 132);
  EXPECT_EQ(linear_cut(Layout::panel8, 2000, 1280).columns, 252);
  EXPECT_EQ(linear_cut(Layout::panel8, 1000, 1 << 20).columns, 48);
  EXPECT_EQ(linear_cut(Layout::raw, 1, 4096).panels, 16);
}

TEST(LinearClaims, AreLongAtFirstAndCoverAllChunks) {
  for (const int64_t threads : {1, 2, 3, 64}) {
    for (const int64_t chunks : {0, 1, 2, 7, 48, 2374}) {
      LinearClaims claims(chunks, threads);
      int64_t next = 0, before = chunks;
      for (int64_t i = 0; i < claims.count(); ++i) {
        const auto [begin, end] = claims.at(i);
        EXPECT_EQ(begin, next);
        EXPECT_GT(end, begin);
        EXPECT_LE(end - begin, before);
        EXPECT_LE(end - begin, std::max<int64_t>(1, 2 * chunks / (3 * threads)));
        before = end - begin;
        next = end;
      }
      EXPECT_EQ(next, chunks) << threads << " threads";
    }
  }
  LinearClaims claims(48, 2);
  EXPECT_EQ(claims.at(0).end, 16);
  EXPECT_EQ(claims.at(3).begin, 33);  // 16, 10, 7: a thread may skip claims of others
  EXPECT_LE(LinearClaims(2374, 2).count(), 24);
}

}  // namespace
}  // namespace minfer::cpu
