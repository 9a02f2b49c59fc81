// Published models, whole: logits against transformers' (golden/README.md), perplexity, answers. The scalar kernels
// take f32 activations and weights as the file has them, so they are exact up to f32 rounding; the vector kernels read
// 8-bit activations, and their bounds are about twice what was measured. Skipped where a model is absent, unless
// MINFER_REQUIRE_MODELS=1.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/file_map.hpp"
#include "base/options.hpp"
#include "chat/messages.hpp"
#include "chat/template.hpp"
#include "engine/batcher.hpp"
#include "engine/perplexity.hpp"
#include "model/vocab.hpp"
#include "model_runs.hpp"

namespace minfer::test {
namespace {

constexpr double kExact = 2e-5;
constexpr const char* kText = "/usr/share/common-licenses/GPL-3";
constexpr int64_t kWindow = 512;
constexpr int64_t kWindows = 3;

// What the fast paths reach on a model, the worse of AVX2 and AVX-512.
struct KnownModel {
  std::string name;
  int agreeing;       // of the eight prompts, those whose most likely token is that of the exact model
  double divergence;  // largest of a prompt: Kullback-Leibler, over the 64 most likely tokens of the exact model
  double perplexity;  // exact, of the text's first kWindows windows
  friend void PrintTo(const KnownModel& model, std::ostream* out) { *out << model.name; }
};

const std::vector<KnownModel>& known_models() {
  static const std::vector<KnownModel> models = {
      {"smollm2-135m", 7, 0.08, 16.3829}, {"gemma3-270m", 6, 0.05, 13.7364}, {"qwen2.5-coder-0.5b", 6, 0.005, 5.8083}};
  return models;
}

std::vector<std::string> vector_isas() {
  std::vector<std::string> isas = available_isas();
  std::erase(isas, "scalar");
  return isas;
}

struct Comparison {
  int prompts = 0;
  int agreeing = 0;
  double error = 0;       // of the 64 largest logits, relative to the largest; the worst prompt's
  double divergence = 0;  // see KnownModel
};

double log_sum_exp(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum);
}

Comparison compare(engine::Runner& runner, const std::string& name) {
  Comparison result;
  const auto golden = read_json(golden_path("models/" + name + ".json"));
  for (const auto& prompt : golden.at("prompts")) {
    engine::Sequence sequence(runner.cache());
    const auto logits = engine::append(runner, sequence, prompt.at("ids").get<std::vector<int32_t>>());
    const auto ids = prompt.at("top_ids").get<std::vector<int32_t>>();
    const auto expected = prompt.at("top_logits").get<std::vector<float>>();
    const double actual_sum = log_sum_exp(logits), expected_sum = prompt.at("logsumexp").get<double>();
    std::vector<float> actual;
    double divergence = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      actual.push_back(logits[static_cast<size_t>(ids[i])]);
      const double exact = static_cast<double>(expected[i]) - expected_sum;
      divergence += std::exp(exact) * (exact - (static_cast<double>(actual[i]) - actual_sum));
    }
    result.error = std::max(result.error, relative_error(actual, expected));
    result.divergence = std::max(result.divergence, divergence);
    result.agreeing += argmax(logits) == ids[0];
    ++result.prompts;
  }
  return result;
}

double text_perplexity(Loaded& loaded) {
  const tokenizer::Tokenizer tokenizer(model::read_vocab(loaded.model.file()));
  const FileMap text(kText);
  const std::string_view bytes(reinterpret_cast<const char*>(text.bytes().data()), text.bytes().size());
  const auto tokens = tokenizer.encode(bytes, {.parse_special = false, .add_special = true});
  const auto bos = tokenizer.adds_bos() ? tokenizer.vocab().bos() : std::nullopt;
  return engine::perplexity(loaded.runner, tokens, kWindow, kWindows, bos, {}, {}).perplexity;
}

struct Answer {
  std::string text;
  engine::Result result;
};

Answer answer(Loaded& loaded, const std::string& question, const engine::SamplerParams& sampler, int64_t max_tokens) {
  const gguf::File& file = loaded.model.file();
  const tokenizer::Tokenizer tokenizer(model::read_vocab(file));
  chat::Conversation conversation;
  conversation.messages.push_back({"user", chat::Value::string(question), {}});
  const auto source = std::string(file.metadata().require_string("tokenizer.chat_template"));
  const auto prompt = chat::Template::parse(source, "template").render(chat::template_variables(conversation));
  engine::Request request;
  request.prompt = tokenizer.encode(prompt, {.parse_special = true, .add_special = false});
  request.sampler = sampler;
  request.max_tokens = max_tokens;
  engine::Batcher batcher(loaded.runner, tokenizer, {});
  Answer answer;
  batcher.submit(request, {[&](const engine::DrawnToken&, std::string_view text) { answer.text += text; },
                           [&](const engine::Result& result) { answer.result = result; }});
  while (batcher.step()) {
  }
  if (answer.result.error) throw *answer.result.error;
  return answer;
}

std::string parameter_name(const std::string& name) {
  std::string result;
  for (const char c : name) result += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return result;
}

class Models : public ::testing::TestWithParam<KnownModel> {
 protected:
  void SetUp() override {
    path_ = model_path(GetParam().name);
    if (is_absent(path_)) GTEST_SKIP() << path_ << " is absent";
  }
  std::string path_;
};

TEST_P(Models, ScalarKernelsAreExact) {
  Loaded loaded(path_, "scalar", 0, exact_options(64, 64));
  const Comparison comparison = compare(loaded.runner, GetParam().name);
  EXPECT_EQ(comparison.prompts, 8);
  EXPECT_EQ(comparison.agreeing, 8);
  EXPECT_LE(comparison.error, kExact);
  EXPECT_LE(comparison.divergence, 1e-5);
  fmt::print("{} scalar: logits error {:.2g}, divergence {:.2g}\n", GetParam().name, comparison.error,
             comparison.divergence);
}

TEST_P(Models, VectorKernelsAreNear) {
  for (const std::string& isa : vector_isas()) {
    SCOPED_TRACE(isa);
    Loaded loaded(path_, isa, 0, fast_options(kWindow, kWindow));
    const Comparison comparison = compare(loaded.runner, GetParam().name);
    EXPECT_GE(comparison.agreeing, GetParam().agreeing);
    EXPECT_LE(comparison.divergence, GetParam().divergence);
    const double perplexity = text_perplexity(loaded);
    EXPECT_NEAR(perplexity, GetParam().perplexity, 0.01 * GetParam().perplexity);
    fmt::print("{} {}: {} of 8 agree, divergence {:.4f}, logits error {:.4f}, perplexity {:.4f}\n", GetParam().name,
               isa, comparison.agreeing, comparison.divergence, comparison.error, perplexity);
  }
}

INSTANTIATE_TEST_SUITE_P(Published, Models, ::testing::ValuesIn(known_models()),
                         [](const auto& row) { return parameter_name(row.param.name); });

struct Question {
  std::string name;
  std::string model;
  std::string text;
  std::string word;  // what the greedy answer has
  bool exact_only;   // whether the answer hangs on less than 8-bit activations keep
  friend void PrintTo(const Question& question, std::ostream* out) { *out << question.name; }
};

// The smallest model is on an edge with France: exactly it says Paris, but with 8-bit activations (llama.cpp's too) it
// goes on in French. It is sure of Germany.
const std::vector<Question>& questions() {
  static const std::vector<Question> rows = {
      {"smollm2_france", "smollm2-135m", "What is the capital of France?", "Paris", true},
      {"smollm2_germany", "smollm2-135m", "What is the capital of Germany?", "Berlin", false},
      {"qwen_france", "qwen2.5-coder-0.5b", "What is the capital of France?", "Paris", false}};
  return rows;
}

class Answers : public ::testing::TestWithParam<Question> {};

TEST_P(Answers, HaveTheRightWord) {
  const std::string path = model_path(GetParam().model);
  if (is_absent(path)) GTEST_SKIP() << path << " is absent";
  engine::SamplerParams greedy;
  greedy.temperature = 0;
  for (const std::string& isa : GetParam().exact_only ? std::vector<std::string>{"scalar"} : available_isas()) {
    SCOPED_TRACE(isa);
    Loaded loaded(path, isa, 0, fast_options(256, 256));
    const Answer found = answer(loaded, GetParam().text, greedy, 24);
    EXPECT_NE(found.text.find(GetParam().word), std::string::npos) << found.text;
    EXPECT_EQ(found.result.reason, engine::StopReason::end_of_generation) << found.text;
  }
}

INSTANTIATE_TEST_SUITE_P(Chat, Answers, ::testing::ValuesIn(questions()),
                         [](const auto& row) { return row.param.name; });

// On quantized weights, which the tiny golden models don't have: 8-bit activations, panels, f16 cache.
class Quantized : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    path_ = model_path(GetParam());
    if (is_absent(path_)) GTEST_SKIP() << path_ << " is absent";
  }
  std::string path_;
};
class Seeds : public Quantized {};

TEST_P(Seeds, DrawTheSameTokensForASeedOnAnyThreads) {
  engine::SamplerParams sampler;
  sampler.seed = 7;
  for (const std::string& isa : vector_isas()) {
    SCOPED_TRACE(isa);
    std::vector<std::string> texts;
    for (const int threads : {1, 2}) {
      Loaded loaded(path_, isa, threads, fast_options(256, 256));
      for (int time = 0; time < 2; ++time) texts.push_back(answer(loaded, "Tell me a story.", sampler, 24).text);
      sampler.seed = 8;
      EXPECT_NE(answer(loaded, "Tell me a story.", sampler, 24).text, texts[0]);
      sampler.seed = 7;
    }
    EXPECT_GT(texts[0].size(), 20u);
    EXPECT_EQ(texts, std::vector<std::string>(4, texts[0]));
  }
}

INSTANTIATE_TEST_SUITE_P(Bits, Seeds, ::testing::Values("smollm2-135m"),
                         [](const auto& row) { return parameter_name(row.param); });

TEST_P(Quantized, BitsDependNeitherOnThreadsNorOnStepsNorOnFusion) {
  const auto golden = read_json(golden_path("models/" + GetParam() + ".json"));
  const auto ids = golden.at("prompts").at(3).at("ids").get<std::vector<int32_t>>();
  for (const std::string& isa : vector_isas()) {
    const auto logits = [&](int threads, int64_t batch, bool fuse) {
      Loaded loaded(path_, isa, threads, fast_options(64, batch, fuse));
      engine::Sequence sequence(loaded.runner.cache());
      const auto last = engine::append(loaded.runner, sequence, ids);
      return std::vector<float>(last.begin(), last.end());
    };
    const auto expected = logits(2, 64, true);
    EXPECT_TRUE(same_bits(logits(1, 64, true), expected)) << isa;
    EXPECT_TRUE(same_bits(logits(3, 64, true), expected)) << isa;
    EXPECT_TRUE(same_bits(logits(2, 1, true), expected)) << isa;
    EXPECT_TRUE(same_bits(logits(2, 7, true), expected)) << isa;
    EXPECT_TRUE(same_bits(logits(2, 64, false), expected)) << isa;
  }
}

INSTANTIATE_TEST_SUITE_P(Bits, Quantized, ::testing::Values("smollm2-135m", "gemma3-270m"),
                         [](const auto& row) { return parameter_name(row.param); });

}  // namespace
}  // namespace minfer::test
