// Synthetic models load and run, and with them every quantization type end to end: each mix's logits on the vector
// kernels against the scalar ones, which take f32 activations and the weights as the file has them. 8-bit activations
// cost some accuracy on these random weights; a wrong layout, scale or minimum costs all of it.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gguf/writer.hpp"
#include "model/synthetic.hpp"
#include "model_runs.hpp"
#include "tensor/dtype.hpp"

namespace minfer::test {
namespace {

constexpr double kBound = 0.05;  // of the largest logit; at most 0.026 was measured

class Synthetic : public ::testing::TestWithParam<std::string> {};

TEST_P(Synthetic, VectorKernelsAgreeWithScalarOnes) {
  const std::string path = ::testing::TempDir() + "minfer_synthetic_" + GetParam() + ".gguf";
  model::write_synthetic("smollm2-135m:" + GetParam(), path);
  const std::vector<int32_t> ids = {17, 4711, 31337};
  std::vector<float> exact;
  for (const std::string& isa : available_isas()) {
    Loaded loaded(path, isa, 0, exact_options(64, 8));
    engine::Sequence sequence(loaded.runner.cache());
    const auto logits = engine::append(loaded.runner, sequence, ids);
    ASSERT_EQ(logits.size(), 49152u);
    ASSERT_TRUE(std::isfinite(largest_magnitude(logits)));
    ASSERT_GT(largest_magnitude(logits), 0);
    if (exact.empty()) exact.assign(logits.begin(), logits.end());
    EXPECT_LE(relative_error(logits, exact), kBound) << isa;
    fmt::print("{} {}: {:.4f}\n", GetParam(), isa, relative_error(logits, exact));
  }
  std::remove(path.c_str());
}

INSTANTIATE_TEST_SUITE_P(Mixes, Synthetic,
                         ::testing::Values("f16", "q8_0", "q6_k", "q5_k_m", "q5_0", "q5_1", "q4_k_m", "q4_0", "q4_1",
                                           "iq4_nl", "iq4_xs", "q3_k", "q2_k", "mxfp4"),
                         [](const auto& row) { return row.param; });

// --- head sizes ---

constexpr int64_t kWidth = 128, kFfn = 192, kVocabulary = 320, kHeads = 4, kKvHeads = 2;

struct HeadSizes {
  int64_t key;
  int64_t value;
};

// A llama of two layers with random Q8_0 matrices. Its heads together are whole blocks of 32, each need not be.
void write_small_q8(const std::string& path, const HeadSizes& sizes) {
  gguf::Writer writer(path);
  writer.add_string("general.architecture", "llama");
  const std::pair<const char*, int64_t> counts[] = {{"block_count", 2},
                                                    {"context_length", 64},
                                                    {"embedding_length", kWidth},
                                                    {"vocab_size", kVocabulary},
                                                    {"feed_forward_length", kFfn},
                                                    {"attention.head_count", kHeads},
                                                    {"attention.head_count_kv", kKvHeads},
                                                    {"attention.key_length", sizes.key},
                                                    {"attention.value_length", sizes.value}};
  for (const auto& [key, value] : counts) writer.add(std::string("llama.") + key, static_cast<uint32_t>(value));
  writer.add("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  std::mt19937 random(7);
  const auto norm = [&](const std::string& name) {
    writer.add_tensor(name, tensor::DType::f32, std::vector<int64_t>{kWidth}, [](const gguf::Writer::Sink& sink) {
      const std::vector<float> ones(kWidth, 1.0F);
      sink(std::as_bytes(std::span(ones)));
    });
  };
  const auto matrix = [&](const std::string& name, int64_t cols, int64_t rows) {
    writer.add_tensor(
        name, tensor::DType::q8_0, std::vector<int64_t>{cols, rows},
        [&random, cols, rows](const gguf::Writer::Sink& sink) {
          constexpr size_t kBlockBytes = 34;
          std::vector<std::byte> bytes(static_cast<size_t>(tensor::row_bytes(tensor::DType::q8_0, cols) * rows));
          for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
          const uint16_t scale = tensor::float_to_half(0.001F);
          for (size_t at = 0; at < bytes.size(); at += kBlockBytes)
            std::memcpy(bytes.data() + at, &scale, sizeof scale);
          sink(bytes);
        });
  };
  matrix("token_embd.weight", kWidth, kVocabulary);
  norm("output_norm.weight");
  for (const std::string block : {"blk.0.", "blk.1."}) {
    norm(block + "attn_norm.weight");
    norm(block + "ffn_norm.weight");
    matrix(block + "attn_q.weight", kWidth, kHeads * sizes.key);
    matrix(block + "attn_k.weight", kWidth, kKvHeads * sizes.key);
    matrix(block + "attn_v.weight", kWidth, kKvHeads * sizes.value);
    matrix(block + "attn_output.weight", kHeads * sizes.value, kWidth);
    matrix(block + "ffn_gate.weight", kWidth, kFfn);
    matrix(block + "ffn_up.weight", kWidth, kFfn);
    matrix(block + "ffn_down.weight", kFfn, kWidth);
  }
  writer.finish();
}

// The vector kernels' attention writes 8-bit rows only where a head's values are whole blocks of 32; the others run
// too.
TEST(HeadSizes, QuantizedModelsRunOnEveryInstructionSet) {
  const std::string path = ::testing::TempDir() + "minfer_head_sizes.gguf";
  const std::vector<int32_t> ids = {17, 300, 5, 211, 42};
  for (const HeadSizes sizes : {HeadSizes{80, 80}, {48, 48}, {16, 16}, {64, 16}, {32, 40}, {64, 64}}) {
    write_small_q8(path, sizes);
    std::vector<float> exact;
    for (const std::string& isa : available_isas()) {
      for (const bool fuse : {true, false}) {
        engine::RunnerOptions options = exact_options(64, 8);
        options.fuse = fuse;
        Loaded loaded(path, isa, 2, options);
        engine::Sequence sequence(loaded.runner.cache());
        const auto logits = engine::append(loaded.runner, sequence, ids);
        if (exact.empty()) exact.assign(logits.begin(), logits.end());
        ASSERT_GT(largest_magnitude(logits), 0);
        EXPECT_LE(relative_error(logits, exact), kBound) << isa << " with values of " << sizes.value;
      }
    }
  }
  std::remove(path.c_str());
}

}  // namespace
}  // namespace minfer::test
