// The engine on a tiny golden model and the CPU: sequences and their pages, generation with every reason to stop, and
// perplexity. Logits don't depend on how tokens are cut into steps (golden_test), so most comparisons are bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "base/test_support.hpp"
#include "engine/batcher.hpp"
#include "engine/perplexity.hpp"
#include "model/vocab.hpp"
#include "model/weight_check.hpp"
#include "model_runs.hpp"

namespace minfer::test {
namespace {

using ::testing::HasSubstr;

// The tiny llama with one page of cache and steps of 16 tokens, unless said otherwise.
class Engine : public ::testing::Test {
 protected:
  explicit Engine(int64_t context = 64)
      : json_(read_json(golden_path("tiny/llama.json"))),
        prompt_(json_.at("prompt").get<std::vector<int32_t>>()),
        greedy_(json_.at("greedy").get<std::vector<int32_t>>()),
        loaded_(golden_path("tiny/llama.gguf"), "", 1, exact_options(context, 16, 3)),
        pool_(loaded_.runner.cache().pool(0)) {}

  engine::Runner& runner() { return loaded_.runner; }
  // A copy: the runner's next step overwrites its logits.
  static std::vector<float> copy(std::span<const float> logits) { return {logits.begin(), logits.end()}; }
  // The logits after `ids`, from a pool of their own.
  std::vector<float> logits_after(std::span<const int32_t> ids) {
    engine::Sequence sequence(runner().cache());
    return copy(engine::append(runner(), sequence, ids));
  }

  nlohmann::json json_;
  std::vector<int32_t> prompt_;
  std::vector<int32_t> greedy_;
  Loaded loaded_;
  engine::PagePool& pool_;
};

class TwoPages : public Engine {
 protected:
  TwoPages() : Engine(128) {}
};

// --- sequences ---

TEST_F(Engine, AFullContextLeavesTheSequenceAsItWas) {
  engine::Sequence sequence(runner().cache());
  engine::append(runner(), sequence, prompt_);
  const std::vector<int32_t> more(greedy_.begin(), greedy_.begin() + 25);
  EXPECT_THAT(error_of([&] { engine::append(runner(), sequence, more); }),
              HasSubstr("out_of_memory: 25 tokens after 40 are more than the context of 64 holds"));
  EXPECT_EQ(std::vector<int32_t>(sequence.tokens().begin(), sequence.tokens().end()), prompt_);
  // It goes on as if nothing had happened, up to the last token of the page.
  const auto logits = copy(engine::append(runner(), sequence, std::span(more).first(24)));
  std::vector<int32_t> all = prompt_;
  all.insert(all.end(), more.begin(), more.begin() + 24);
  EXPECT_TRUE(same_bits(logits, logits_after(all)));
  EXPECT_EQ(sequence.length(), 64);
}

TEST_F(TwoPages, PagesAreTakenAsTheSequenceGrowsAndGivenBack) {
  {
    engine::Sequence sequence(runner().cache());
    EXPECT_EQ(pool_.available_pages(), 6);
    engine::append(runner(), sequence, prompt_);
    EXPECT_EQ(pool_.available_pages(), 5);
    engine::append(runner(), sequence, std::span(greedy_).first(24));
    EXPECT_EQ(pool_.available_pages(), 5) << "64 tokens fit one page";
    engine::append(runner(), sequence, std::span(greedy_).subspan(24, 1));
    EXPECT_EQ(pool_.available_pages(), 4);
  }
  EXPECT_EQ(pool_.available_pages(), 6);
}

TEST_F(TwoPages, TwoSequencesOfOnePoolDoNotMeet) {
  const std::vector<int32_t> other(greedy_.begin(), greedy_.begin() + 30);
  engine::Sequence first(runner().cache()), second(runner().cache());
  engine::append(runner(), first, std::span(prompt_).first(20));
  engine::append(runner(), second, std::span(other).first(9));
  const auto first_logits = copy(engine::append(runner(), first, std::span(prompt_).subspan(20)));
  const auto second_logits = copy(engine::append(runner(), second, std::span(other).subspan(9)));
  EXPECT_TRUE(same_bits(first_logits, logits_after(prompt_)));
  EXPECT_TRUE(same_bits(second_logits, logits_after(other)));
}

TEST_F(Engine, RefusesNoTokensAndTokensOutsideTheVocabulary) {
  engine::Sequence sequence(runner().cache());
  EXPECT_THAT(error_of([&] { engine::append(runner(), sequence, {}); }), HasSubstr("invalid_input: no tokens to run"));
  const std::vector<int32_t> high = {1, 288}, low = {-1};
  EXPECT_EQ(error_of([&] { engine::append(runner(), sequence, high); }),
            "invalid_input: token id 288 is not in the vocabulary of 288 tokens");
  EXPECT_EQ(error_of([&] { engine::append(runner(), sequence, low); }),
            "invalid_input: token id -1 is not in the vocabulary of 288 tokens");
  EXPECT_EQ(sequence.length(), 0);
  const auto logits = copy(engine::append(runner(), sequence, prompt_));
  EXPECT_TRUE(same_bits(logits, logits_after(prompt_)));
}

TEST_F(Engine, IsCancelledBetweenSteps) {
  engine::Sequence sequence(runner().cache());
  int asked = 0;
  EXPECT_EQ(error_of([&] { engine::append(runner(), sequence, prompt_, [&] { return ++asked == 3; }); }),
            "cancelled: cancelled after 32 tokens");
  EXPECT_EQ(sequence.length(), 32);
  const auto logits = copy(engine::append(runner(), sequence, std::span(prompt_).subspan(32)));
  EXPECT_TRUE(same_bits(logits, logits_after(prompt_)));
}

TEST_F(Engine, RefusesOptionsOutOfRange) {
  const auto error = [&](engine::RunnerOptions options) {
    return error_of([&] { planned_memory(loaded_.model, loaded_.registry.preferred(), options); });
  };
  EXPECT_THAT(error(exact_options(0, 1)), HasSubstr("invalid_input: context of 0 tokens; expected 1 to"));
  EXPECT_THAT(error(exact_options(engine::kMaxContextTokens + 1, 1)), HasSubstr("expected 1 to 1073741824"));
  EXPECT_THAT(error(exact_options(1, 0)), HasSubstr("invalid_input: batch of 0 tokens; expected 1 to 65536"));
  EXPECT_THAT(error(exact_options(1, engine::kMaxBatchTokens + 1)), HasSubstr("batch of 65537 tokens"));
}

TEST_F(Engine, RefusesWhatTheMemoryCannotHoldBeforeLoading) {
  EXPECT_THAT(error_of([&] {
                engine::Runner(loaded_.model, loaded_.registry.preferred(),
                               exact_options(engine::kMaxContextTokens, 16), {});
              }),
              HasSubstr("out_of_memory: the model needs "));
}

TEST_F(Engine, PlansAsManyBytesAsThePartsTake) {
  const graph::MemoryUse use = runner().memory();
  // Layers, tokens of a page, heads, head size, keys and values, f32.
  const model::Config& config = loaded_.model.config();
  EXPECT_EQ(use.kv_bytes, 3 * config.layers * 64 * config.kv_heads * config.key_size * 2 * 4);
  EXPECT_GT(use.weights_bytes, 0);
  EXPECT_GE(use.activation_bytes, 16 * config.vocabulary * 4) << "a step's logits at least";
  EXPECT_EQ(use.total_bytes(), use.weights_bytes + use.kv_bytes + use.activation_bytes + use.scratch_bytes);
}

// --- generation ---

class Generation : public TwoPages {
 protected:
  Generation() : tokenizer_(model::read_vocab(loaded_.model.file())) {
    request_.prompt = prompt_;
    request_.sampler.temperature = 0;
    request_.max_tokens = 12;
  }

  // `cancel_at`: after how many steps it is cancelled.
  engine::Result generate(int64_t cancel_at = -1) {
    text_.clear();
    engine::Batcher batcher(runner(), tokenizer_, {});
    engine::Result result;
    const engine::RequestId id =
        batcher.submit(request_, {[&](const engine::DrawnToken&, std::string_view text) { text_ += text; },
                                  [&](const engine::Result& ended) { result = ended; }});
    for (int64_t steps = 0; steps != cancel_at && batcher.step();) ++steps;
    batcher.cancel(id);
    batcher.step();
    EXPECT_EQ(pool_.available_pages(), pool_.pages());
    if (result.error) throw *result.error;
    return result;
  }
  std::string decoded(size_t tokens) const {
    return tokenizer_.decode(std::span(greedy_).first(tokens), {.show_control = false, .at_text_start = false});
  }

  tokenizer::Tokenizer tokenizer_;
  engine::Request request_;
  std::string text_;
};

TEST_F(Generation, StopsAtMaxTokensWithTheGoldenText) {
  const auto result = generate();
  EXPECT_EQ(result.reason, engine::StopReason::max_tokens);
  EXPECT_EQ(result.prompt_tokens, 40);
  EXPECT_EQ(result.generated_tokens, 12);
  EXPECT_EQ(text_, decoded(12));
  EXPECT_GT(result.prompt_seconds, 0);
  EXPECT_GT(result.generate_seconds, 0);
  request_.max_tokens = 0;
  EXPECT_EQ(generate().generated_tokens, 0);
  EXPECT_EQ(text_, "");
}

TEST_F(Generation, StopsAtAStopStringAndShowsNothingOfIt) {
  const std::string full = decoded(12);
  ASSERT_GT(full.size(), 8u);
  const std::string stop = full.substr(full.size() / 2, 3);
  request_.stops = {"never seen", stop};
  const auto result = generate();
  EXPECT_EQ(result.reason, engine::StopReason::stop_string);
  EXPECT_EQ(text_, full.substr(0, full.find(stop)));
  EXPECT_LT(result.generated_tokens, 12);
}

TEST_F(Generation, StopsWhenTheContextIsFull) {
  request_.max_tokens = -1;
  request_.prompt.resize(127, 7);
  const auto result = generate();
  EXPECT_EQ(result.reason, engine::StopReason::context_full);
  EXPECT_EQ(result.generated_tokens, 2) << "one that the context holds, and the one that it predicts";
}

TEST_F(Generation, IsCancelledInThePromptAndBetweenTokens) {
  auto result = generate(0);
  EXPECT_EQ(result.reason, engine::StopReason::cancelled);
  EXPECT_EQ(result.generated_tokens, 0);
  EXPECT_EQ(text_, "");
  // The prompt takes three steps of 16, of which the last draws the first token.
  result = generate(2);
  EXPECT_EQ(result.generated_tokens, 0);
  result = generate(4);
  EXPECT_EQ(result.reason, engine::StopReason::cancelled);
  EXPECT_EQ(result.generated_tokens, 2);
  EXPECT_EQ(text_, decoded(2)) << "what was generated stands";
}

TEST_F(Generation, StopsAtTheEndTokenWithoutShowingIt) {
  ASSERT_TRUE(tokenizer_.vocab().eos().has_value());
  request_.sampler.logit_bias = {{*tokenizer_.vocab().eos(), 1000.0F}};
  const auto result = generate();
  EXPECT_EQ(result.reason, engine::StopReason::end_of_generation);
  EXPECT_EQ(result.generated_tokens, 1);
  EXPECT_EQ(text_, "");
}

TEST_F(Generation, PenaltiesLookBackOnThePromptToo) {
  // The first greedy token is made to occur in the prompt, where a presence penalty strikes it.
  request_.max_tokens = 1;
  request_.sampler.penalty_last_n = -1;
  request_.sampler.presence_penalty = 100;
  generate();
  const auto logits = logits_after(prompt_);
  std::vector<float> expected = logits;
  for (const int32_t token : prompt_) expected[static_cast<size_t>(token)] = -1e9F;
  const int32_t token = argmax(expected);
  EXPECT_EQ(text_, tokenizer_.decode({&token, 1}, {.show_control = false, .at_text_start = false}));
}

TEST_F(Generation, ReportsBadRequests) {
  request_.sampler.top_p = 2;
  EXPECT_THAT(error_of([&] { generate(); }), HasSubstr("invalid_input: top_p is 2"));
  request_.sampler.top_p = 1;
  request_.stops = {""};
  EXPECT_THAT(error_of([&] { generate(); }), HasSubstr("a stop string is empty"));
  request_.stops.clear();
  request_.prompt.clear();
  EXPECT_THAT(error_of([&] { generate(); }), HasSubstr("the prompt is empty"));
  request_.prompt.assign(129, 1);
  EXPECT_THAT(error_of([&] { generate(); }), HasSubstr("the prompt has 129 tokens, the context 128"));
}

// --- perplexity ---

// -log p of `token` after `ids`.
double surprise(std::span<const float> logits, int32_t token) {
  long double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<long double>(logit));
  return static_cast<double>(std::log(sum) - static_cast<long double>(logits[static_cast<size_t>(token)]));
}

class Perplexity : public Engine {
 protected:
  Perplexity() : text_(prompt_) {
    text_.insert(text_.end(), greedy_.begin(), greedy_.begin() + 20);  // 60 tokens: 3 windows of 18 and a rest
  }
  // The scored tokens' surprises by the definition, each window and each prefix by itself.
  std::vector<double> direct(size_t windows, std::optional<int32_t> bos) {
    std::vector<double> surprises;
    for (size_t w = 0; w < windows; ++w) {
      std::vector<int32_t> ids(text_.begin() + static_cast<long>(w * 18),
                               text_.begin() + static_cast<long>(w * 18 + 18));
      if (bos) ids[0] = *bos;
      for (size_t position = 9; position + 1 < 18; ++position) {
        surprises.push_back(surprise(logits_after(std::span(ids).first(position + 1)), ids[position + 1]));
      }
    }
    return surprises;
  }
  std::vector<int32_t> text_;
};

TEST_F(Perplexity, IsTheMeanSurpriseOfTheSecondHalves) {
  for (const std::optional<int32_t> bos : {std::optional<int32_t>(), std::optional<int32_t>(5)}) {
    std::vector<std::pair<int64_t, int64_t>> seen;
    const auto result = engine::perplexity(
        runner(), text_, 18, 0, bos,
        [&](int64_t window, int64_t position, std::span<const float>) { seen.emplace_back(window, position); }, {});
    const auto surprises = direct(3, bos);
    ASSERT_EQ(surprises.size(), 24u);
    double mean = 0, variance = 0;
    for (const double value : surprises) mean += value / 24;
    for (const double value : surprises) variance += (value - mean) * (value - mean) / 24;
    EXPECT_EQ(result.windows, 3);
    EXPECT_EQ(result.scored_tokens, 24);
    EXPECT_NEAR(result.mean_nll, mean, 1e-9);
    EXPECT_NEAR(result.perplexity, std::exp(mean), 1e-6);
    EXPECT_NEAR(result.standard_error, std::exp(mean) * std::sqrt(variance / 23), 1e-6);
    ASSERT_EQ(seen.size(), 24u);
    EXPECT_EQ(seen.front(), std::make_pair(int64_t{0}, int64_t{9}));
    EXPECT_EQ(seen.back(), std::make_pair(int64_t{2}, int64_t{16}));
  }
  EXPECT_NE(direct(1, 5), direct(1, std::nullopt)) << "BOS must matter for this test to tell anything";
}

TEST_F(Perplexity, MeasuresAsManyWindowsAsAsked) {
  std::vector<int64_t> done;
  const auto result = engine::perplexity(runner(), text_, 18, 2, std::nullopt, {}, [&](int64_t at, int64_t total) {
    EXPECT_EQ(total, 2);
    done.push_back(at);
  });
  EXPECT_EQ(done, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(result.scored_tokens, 16);
  EXPECT_EQ(engine::perplexity(runner(), text_, 18, 9, std::nullopt, {}, {}).windows, 3);
}

TEST_F(Perplexity, LogitsThatAreNoNumbersAreAnError) {
  // The same model with a NaN in its output norm.
  const std::string path = ::testing::TempDir() + "minfer_perplexity_nan.gguf";
  std::ifstream in(golden_path("tiny/llama.gguf"), std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + loaded_.model.file().find_tensor("output_norm.weight")->offset_bytes, &nan, sizeof nan);
  std::ofstream(path, std::ios::binary) << bytes;
  Loaded broken(path, "", 1, exact_options(64, 16));
  int scored = 0;
  EXPECT_EQ(
      error_of([&] {
        engine::perplexity(broken.runner, text_, 18, 0, std::nullopt,
                           [&](int64_t, int64_t, std::span<const float>) { ++scored; }, {});
      }),
      "invalid_input: the model gave NaN as the logit of token 0 at position 9 of window 0; its weights are broken; "
      "tensor output_norm.weight has NaN at row 0, column 0");
  EXPECT_EQ(scored, 0);
  std::remove(path.c_str());
}

TEST(BrokenWeights, AreFoundInMatricesThatTheFileHasTheOtherWayRound) {
  std::ifstream in(golden_path("tiny/deepseek2.gguf"), std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const model::Model whole{gguf::File(golden_path("tiny/deepseek2.gguf"))};
  EXPECT_EQ(model::describe_broken_weights(whole), "no weight is NaN or infinity");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const gguf::TensorInfo* tensor = whole.file().find_tensor("blk.1.attn_k_b.weight");
  std::memcpy(bytes.data() + tensor->offset_bytes + 5 * sizeof nan, &nan, sizeof nan);
  const std::string path = ::testing::TempDir() + "minfer_transposed_nan.gguf";
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(model::describe_broken_weights(model::Model(gguf::File(path))),
            "tensor blk.1.attn_k_b.weight has NaN at row 5, column 0");
  std::remove(path.c_str());
}

TEST_F(Perplexity, RefusesWindowsAndTextsThatDoNotFit) {
  const auto error = [&](int64_t window) {
    return error_of([&] { engine::perplexity(runner(), text_, window, 0, std::nullopt, {}, {}); });
  };
  EXPECT_EQ(error(3), "invalid_input: window of 3 tokens; expected 4 to the context of 64");
  EXPECT_EQ(error(65), "invalid_input: window of 65 tokens; expected 4 to the context of 64");
  EXPECT_EQ(error(31), "invalid_input: the text has 60 tokens; perplexity with windows of 31 needs at least 62");
  EXPECT_EQ(error(30), "no error");
}

}  // namespace
}  // namespace minfer::test
