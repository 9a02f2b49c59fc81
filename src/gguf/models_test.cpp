// Real model files: known values of their metadata and tensors (checked once with the Python gguf package), and the
// time to open one with its vocabulary. Skipped where the files are absent, unless MINFER_REQUIRE_MODELS=1.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "gguf/test_support.hpp"

namespace minfer::gguf {
namespace {

using tensor::DType;

struct KnownModel {
  std::string file;
  std::string architecture;
  size_t keys;
  size_t tensors;
  std::string first_name;
  DType first_dtype;
  std::array<int64_t, 4> first_shape;
  size_t first_offset;
  std::array<uint8_t, 8> first_bytes;
  uint32_t blocks;
  size_t vocabulary;
  size_t merges;  // 0: none
  size_t last_offset;
};

const std::vector<KnownModel>& known_models() {
  static const std::vector<KnownModel> models = {
      {"smollm2-135m.gguf",
       "llama",
       33,
       272,
       "token_embd.weight",
       DType::q8_0,
       {576, 49152, 1, 1},
       1785664,
       {0x32, 0x19, 0xd6, 0x0d, 0x13, 0xf7, 0xe5, 0xee},
       30,
       49152,
       48900,
       98360128},
      {"gemma3-270m.gguf",
       "gemma3",
       33,
       236,
       "output_norm.weight",
       DType::f32,
       {640, 1, 1, 1},
       6525120,
       {0x00, 0x00, 0xe4, 0x40, 0x00, 0x00, 0x19, 0x41},
       18,
       262144,
       0,
       253110464},
      {"qwen2.5-coder-0.5b.gguf",
       "qwen2",
       26,
       291,
       "output.weight",
       DType::q8_0,
       {896, 151936, 1, 1},
       5947776,
       {0xd8, 0x0b, 0xbb, 0x69, 0x60, 0x33, 0x83, 0xdd},
       24,
       151936,
       151387,
       491396480},
      {"qwen2.5-coder-1.5b.gguf",
       "qwen2",
       26,
       339,
       "output.weight",
       DType::q6_k,
       {1536, 151936, 1, 1},
       5950528,
       {0xde, 0x98, 0xb4, 0x90, 0xc1, 0x08, 0x2a, 0x37},
       28,
       151936,
       151387,
       1117314624},
  };
  return models;
}

class Models : public ::testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    const EnvironmentOptions& options = environment_options();
    path_ = options.model_dir + "/" + model().file;
    if (std::filesystem::exists(path_)) return;
    ASSERT_FALSE(options.require_models) << path_ << " is absent, and MINFER_REQUIRE_MODELS=1";
    GTEST_SKIP() << path_ << " is absent";
  }
  const KnownModel& model() const { return known_models()[GetParam()]; }
  std::string path_;
};

TEST_P(Models, HasTheKnownValues) {
  const File file(path_);
  const Metadata& metadata = file.metadata();
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(metadata.require_string("general.architecture"), model().architecture);
  EXPECT_EQ(metadata.find_u32(model().architecture + ".block_count"), model().blocks);
  EXPECT_EQ(metadata.values().size(), model().keys);
  const StringArray tokens = metadata.require_strings("tokenizer.ggml.tokens");
  EXPECT_EQ(tokens.size(), model().vocabulary);
  EXPECT_EQ(static_cast<size_t>(std::distance(tokens.begin(), tokens.end())), model().vocabulary);
  EXPECT_EQ(metadata.find_i32_array("tokenizer.ggml.token_type").value().size(), model().vocabulary);
  const auto merges = metadata.find_strings("tokenizer.ggml.merges");
  EXPECT_EQ(merges ? merges->size() : 0, model().merges);
  ASSERT_EQ(file.tensors().size(), model().tensors);
  const TensorInfo& first = file.tensors().front();
  EXPECT_EQ(first.name, model().first_name);
  EXPECT_EQ(first.dtype, model().first_dtype);
  EXPECT_EQ(first.shape, model().first_shape);
  EXPECT_EQ(first.offset_bytes, model().first_offset);
  EXPECT_TRUE(
      std::equal(model().first_bytes.begin(), model().first_bytes.end(), reinterpret_cast<const uint8_t*>(first.data)));
  EXPECT_EQ(file.tensors().back().offset_bytes, model().last_offset);
}

TEST_P(Models, OpensQuicklyWithItsVocabulary) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times_ms;
  size_t bytes = 0;
  for (int run = 0; run < 5; ++run) {
    const auto start = Clock::now();
    const File file(path_);
    const StringArray tokens = file.metadata().require_strings("tokenizer.ggml.tokens");
    const std::vector<std::string_view> vocabulary(tokens.begin(), tokens.end());
    times_ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    bytes += vocabulary.size();
  }
  EXPECT_EQ(bytes, 5 * model().vocabulary);
  const double best_ms = *std::min_element(times_ms.begin(), times_ms.end());
  RecordProperty("open_us", static_cast<int>(best_ms * 1000));
  // 20 ms is the promise; sanitizers and a busy machine get room.
  EXPECT_LT(best_ms, 200.0);
}

// Vocabulary-only files of many models, written by tools of different years: no tensors, and every token is readable.
TEST(VocabularyFiles, Open) {
  struct Known {
    std::string name;
    std::string architecture;
    size_t keys;
    size_t tokens;
  };
  const std::vector<Known> files = {{"deepseek-coder", "llama", 25, 32256}, {"deepseek-llm", "llama", 23, 102400},
                                    {"falcon", "falcon", 18, 65024},        {"gpt-2", "gpt2", 16, 50257},
                                    {"llama-spm", "llama", 22, 32000},      {"mpt", "mpt", 17, 50432},
                                    {"phi-3", "phi3", 26, 32064},           {"starcoder", "starcoder2", 19, 49152}};
  const EnvironmentOptions& options = environment_options();
  const std::string folder = options.fixtures + "/vocab";
  if (options.fixtures.empty() || !std::filesystem::exists(folder)) {
    ASSERT_FALSE(options.require_models) << "MINFER_FIXTURES has no vocab folder, and MINFER_REQUIRE_MODELS=1";
    GTEST_SKIP() << "MINFER_FIXTURES has no vocab folder";
  }
  for (const Known& known : files) {
    const File file(folder + "/ggml-vocab-" + known.name + ".gguf");
    EXPECT_EQ(file.metadata().require_string("general.architecture"), known.architecture) << known.name;
    EXPECT_EQ(file.metadata().values().size(), known.keys) << known.name;
    EXPECT_EQ(file.metadata().require_strings("tokenizer.ggml.tokens").size(), known.tokens) << known.name;
    EXPECT_TRUE(file.tensors().empty()) << known.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Known, Models, ::testing::Range(size_t{0}, size_t{4}));

}  // namespace
}  // namespace minfer::gguf
