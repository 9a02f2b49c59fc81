// The encoders, whole, on every instruction set, against transformers (golden/README.md): the vectors of texts by the
// file's own pooling and by others, alone and in any company, and what they refuse. Bounds: golden_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "batcher_runs.hpp"
#include "model/vocab.hpp"
#include "model_runs.hpp"

namespace minfer::test {
namespace {

using engine::Pooling;
using ::testing::HasSubstr;

constexpr double kExact = 2e-5;
constexpr double kHalfCache = 5e-3;
constexpr int64_t kContext = 128;

struct Text {
  std::vector<int32_t> ids;
  std::vector<float> pooled;  // as the file says
  std::vector<float> last;    // the last token's hidden state
};

std::vector<Text> golden_texts(const std::string& variant) {
  std::vector<Text> texts;
  const auto json = read_json(golden_path("tiny/" + variant + ".json"));
  for (const auto& text : json.at("texts")) {
    texts.push_back({text.at("ids").get<std::vector<int32_t>>(), text.at("pooled").get<std::vector<float>>(),
                     text.at("last").get<std::vector<float>>()});
  }
  EXPECT_EQ(texts.size(), 4u);
  return texts;
}

// The runner alone is asked: the tokenizer says only how large the vocabulary is.
class Encoder : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  const std::string& variant() const { return std::get<0>(GetParam()); }
  std::unique_ptr<Loaded> load(const engine::RunnerOptions& options, int threads = 1) const {
    return std::make_unique<Loaded>(golden_path("tiny/" + variant() + ".gguf"), std::get<1>(GetParam()), threads,
                                    options);
  }
};

std::vector<engine::Result> embed(Loaded& loaded, const std::vector<Text>& texts, Pooling pooling) {
  const tokenizer::Tokenizer tokenizer(model::read_vocab(loaded.model.file()));
  engine::BatcherOptions options;
  options.max_running = 8;
  engine::Batcher batcher(loaded.runner, tokenizer, options);
  std::vector<Outcome> outcomes(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    engine::Request request;
    request.prompt = texts[i].ids;
    request.pooling = pooling;
    batcher.submit(std::move(request), listener_of(outcomes[i]));
  }
  while (batcher.step()) {
  }
  std::vector<engine::Result> results;
  for (Outcome& outcome : outcomes) {
    EXPECT_FALSE(outcome.result.error) << outcome.result.error->what();
    results.push_back(std::move(outcome.result));
  }
  return results;
}

TEST_P(Encoder, GivesTheVectorsOfTransformers) {
  const auto texts = golden_texts(variant());
  const auto loaded = load(exact_options(kContext, 16, 4));
  const auto pooled = embed(*loaded, texts, Pooling::of_model), last = embed(*loaded, texts, Pooling::last);
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_LE(relative_error(pooled[i].embedding, texts[i].pooled), kExact) << texts[i].ids.size();
    EXPECT_LE(relative_error(last[i].embedding, texts[i].last), kExact) << texts[i].ids.size();
    EXPECT_EQ(pooled[i].reused_tokens, 0);
  }
}

TEST_P(Encoder, IsNearWithAHalfPrecisionCache) {
  const auto texts = golden_texts(variant());
  auto options = exact_options(kContext, 16, 4);
  options.key_format = options.value_format = graph::KvFormat::f16;
  const auto pooled = embed(*load(options), texts, Pooling::of_model);
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_LE(relative_error(pooled[i].embedding, texts[i].pooled), kHalfCache) << texts[i].ids.size();
  }
}

TEST_P(Encoder, BitsDependNeitherOnCompanyNorThreadsNorFusion) {
  const auto texts = golden_texts(variant());
  std::vector<engine::Result> alone;
  const auto loaded = load(exact_options(kContext, 16, 4));
  for (const Text& text : texts) alone.push_back(embed(*loaded, {text}, Pooling::mean)[0]);
  const auto expect_same = [&](const std::vector<engine::Result>& results) {
    for (size_t i = 0; i < texts.size(); ++i) EXPECT_TRUE(same_bits(results[i].embedding, alone[i].embedding)) << i;
  };
  expect_same(embed(*loaded, texts, Pooling::mean));
  expect_same(embed(*load(exact_options(kContext, 16, 1), 3), texts, Pooling::mean));
  auto plain = exact_options(kContext, 16, 4);
  plain.fuse = false;
  expect_same(embed(*load(plain), texts, Pooling::mean));
}

INSTANTIATE_TEST_SUITE_P(Tiny, Encoder,
                         ::testing::Combine(::testing::Values("bert", "nomic_bert"),
                                            ::testing::ValuesIn(available_isas())),
                         [](const auto& row) { return std::get<0>(row.param) + "_" + std::get<1>(row.param); });

void expect_refusal(const std::function<void()>& call, const std::string& text) {
  try {
    call();
    ADD_FAILURE() << "not refused: " << text;
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

TEST(EncoderRefuses, TextsAndAContextBeyondItsPositions) {
  Loaded loaded(golden_path("tiny/bert.gguf"), "", 1, exact_options(kContext, 16));
  const tokenizer::Tokenizer tokenizer(model::read_vocab(loaded.model.file()));
  engine::Batcher batcher(loaded.runner, tokenizer, {});
  engine::Request request;
  request.prompt = {2, 3};
  Outcome outcome;
  expect_refusal([&] { batcher.submit(request, listener_of(outcome)); }, "bert is an encoder");
  engine::Sequence sequence(loaded.runner.cache());
  expect_refusal([&] { engine::append(loaded.runner, sequence, request.prompt); }, "bert is an encoder");
  expect_refusal(
      [&] { Loaded(golden_path("tiny/bert.gguf"), "", 1, exact_options(129, 16)); },
      "context of 129 tokens; it is at most 128 here (bert.context_length: the positions that it has learned)");
  request.prompt.assign(129, 5);
  request.pooling = Pooling::mean;
  expect_refusal([&] { batcher.submit(request, listener_of(outcome)); }, "the prompt has 129 tokens, the context 128");
}

}  // namespace
}  // namespace minfer::test
