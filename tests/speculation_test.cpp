// Speculative decoding with whole models on the CPU: the tiny golden models of every architecture, decoded with drafts
// as the engine does it (the last token and the draft in one step, then what stands of it), against plain decoding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "engine/forward.hpp"
#include "engine/speculation/depth.hpp"
#include "engine/speculation/draft_model_proposer.hpp"
#include "engine/speculation/ngram_proposer.hpp"
#include "engine/speculation/verify.hpp"
#include "model_runs.hpp"

namespace minfer::test {
namespace {

using ::testing::HasSubstr;

using Tokens = std::vector<int32_t>;

constexpr int64_t kContext = 320;
constexpr size_t kTokens = 200;  // more than the windows of the tiny models and than a page

engine::SamplerParams greedy() {
  engine::SamplerParams params;
  params.temperature = 0;
  return params;
}

// Greedy by logits that look back on the text.
engine::SamplerParams greedy_with_history() {
  engine::SamplerParams params = greedy();
  params.logit_bias = {{7, 0.5F}};
  params.repeat_penalty = 1.1F;
  params.penalty_last_n = 16;
  params.dry_multiplier = 0.2F;
  return params;
}

engine::SamplerParams sampled(uint64_t seed) {
  engine::SamplerParams params;
  params.seed = seed;
  params.temperature = 0.6F;
  return params;
}

// A tiny model, its prompt, and one decoding at a time.
class Target {
 public:
  explicit Target(const std::string& name)
      : prompt_(read_json(golden_path("tiny/" + name + ".json")).at("prompt").get<Tokens>()),
        loaded_(golden_path("tiny/" + name + ".gguf"), "", 1, exact_options(kContext, 32)) {}

  Loaded& loaded() { return loaded_; }

  Tokens plain(const engine::SamplerParams& params) {
    engine::Sequence sequence(loaded_.runner.cache());
    engine::Sampler sampler = sampler_of(params);
    auto logits = engine::append(loaded_.runner, sequence, prompt_);
    Tokens out;
    while (true) {
      out.push_back(sampler.sample(logits));
      sampler.accept(out.back());
      if (out.size() == kTokens) return out;
      logits = engine::append(loaded_.runner, sequence, std::span(out).last(1));
    }
  }

  struct Run {
    Tokens tokens;
    int64_t drafted = 0;
    int64_t accepted = 0;
    int64_t steps = 0;
  };
  Run with_drafts(const engine::SamplerParams& params, engine::Proposer& proposer, int64_t depth) {
    engine::Sequence sequence(loaded_.runner.cache());
    engine::Sampler sampler = sampler_of(params);
    Run run;
    run.tokens.push_back(sampler.sample(engine::append(loaded_.runner, sequence, prompt_)));
    sampler.accept(run.tokens.back());
    engine::Draft draft;
    while (run.tokens.size() < kTokens) {
      const int64_t left = static_cast<int64_t>(kTokens - run.tokens.size());
      proposer.propose(sampler.history(), std::min(depth, left - 1), draft);
      Tokens rows = {run.tokens.back()};
      rows.insert(rows.end(), draft.tokens.begin(), draft.tokens.end());
      const auto verdict = engine::verify(sampler, step(sequence, rows), draft, [](int32_t) { return false; });
      // What was refused is not part of the sequence: the next step overwrites it.
      sequence.commit(std::span(rows).first(static_cast<size_t>(1 + verdict.accepted)));
      run.tokens.insert(run.tokens.end(), draft.tokens.begin(), draft.tokens.begin() + verdict.accepted);
      run.tokens.push_back(verdict.next);
      run.drafted += static_cast<int64_t>(draft.tokens.size());
      run.accepted += verdict.accepted;
      ++run.steps;
    }
    return run;
  }

 private:
  engine::Sampler sampler_of(const engine::SamplerParams& params) {
    engine::Sampler sampler(params, loaded_.model.config().vocabulary);
    for (const int32_t token : prompt_) sampler.accept(token);
    return sampler;
  }
  std::span<const float> step(engine::Sequence& sequence, std::span<const int32_t> ids) {
    const int64_t rows = static_cast<int64_t>(ids.size());
    EXPECT_TRUE(sequence.reserve(rows));
    Tokens outputs;
    for (int64_t row = 0; row < rows; ++row) outputs.push_back(static_cast<int32_t>(row));
    const graph::SequenceStep mine[] = {sequence.step(0, rows)};
    return loaded_.runner.step({ids, outputs, mine});
  }

  Tokens prompt_;
  Loaded loaded_;
};

class Speculation : public ::testing::TestWithParam<std::string> {
 protected:
  Speculation() : target_(GetParam()) {}
  // The same weights with a cache of their own.
  Loaded same_model(int64_t context = kContext, int64_t batch = 32) {
    return Loaded(golden_path("tiny/" + GetParam() + ".gguf"), "", 1, exact_options(context, batch));
  }
  Target target_;
};

TEST_P(Speculation, NgramsGiveTheTokensOfPlainDecoding) {
  for (const auto& params : {greedy(), greedy_with_history(), sampled(3)}) {
    engine::NgramProposer proposer;
    const auto run = target_.with_drafts(params, proposer, 6);
    EXPECT_EQ(run.tokens, target_.plain(params));
    fmt::print("{}: {} of {} accepted, {} steps\n", GetParam(), run.accepted, run.drafted, run.steps);
  }
}

TEST_P(Speculation, ADraftOfTheSameModelIsAlwaysAccepted) {
  auto draft = same_model();
  for (const auto& params : {greedy(), greedy_with_history()}) {
    engine::DraftModelProposer proposer(draft.runner, params, engine::Guess::drawn);
    const auto run = target_.with_drafts(params, proposer, 5);
    EXPECT_EQ(run.tokens, target_.plain(params));
    EXPECT_EQ(run.accepted, run.drafted);
    EXPECT_LE(run.steps, 36) << "6 tokens a step, and at the prompt some to catch up";
  }
  engine::DraftModelProposer proposer(draft.runner, sampled(3), engine::Guess::drawn);
  const auto run = target_.with_drafts(sampled(3), proposer, 5);
  EXPECT_EQ(run.accepted, run.drafted);
  EXPECT_NE(run.tokens, target_.plain(sampled(3))) << "drawn, by other random numbers";
}

// A draft that is often wrong: its sampler prefers other tokens than the target's.
TEST_P(Speculation, ADraftThatIsOftenWrongChangesNothing) {
  auto draft = same_model();
  for (const auto& params : {greedy(), greedy_with_history()}) {
    auto others = params;
    others.presence_penalty = 0.5F;
    others.penalty_last_n = 24;
    engine::DraftModelProposer proposer(draft.runner, others, engine::Guess::drawn);
    const auto run = target_.with_drafts(params, proposer, 7);
    EXPECT_EQ(run.tokens, target_.plain(params));
    EXPECT_LT(run.accepted, run.drafted);
    EXPECT_GT(run.accepted, 0);
  }
}

TEST_P(Speculation, DrawnDraftsRepeatByTheirSeed) {
  auto draft = same_model();
  auto hotter = sampled(5);
  hotter.temperature = 1.5F;
  engine::DraftModelProposer proposer(draft.runner, hotter, engine::Guess::drawn);
  const auto once = target_.with_drafts(sampled(5), proposer, 4);
  proposer.reset();  // it holds pages that the other one needs
  engine::DraftModelProposer again(draft.runner, hotter, engine::Guess::drawn);
  EXPECT_EQ(target_.with_drafts(sampled(5), again, 4).tokens, once.tokens);
  EXPECT_GT(once.accepted, 0);
  EXPECT_LT(once.accepted, once.drafted);
}

TEST_P(Speculation, MirostatTakesGreedyDrafts) {
  auto draft = same_model();
  auto params = sampled(3);
  params.mirostat = 2;
  params.mirostat_tau = 2;
  engine::DraftModelProposer proposer(draft.runner, params, engine::Guess::drawn);
  const auto run = target_.with_drafts(params, proposer, 3);
  EXPECT_EQ(run.tokens, target_.plain(params));
  EXPECT_GT(run.accepted, 0);
}

TEST_P(Speculation, LikeliestDraftsGiveTheTokensOfPlainDecoding) {
  auto draft = same_model();
  engine::DraftModelProposer proposer(draft.runner, sampled(3), engine::Guess::likeliest);
  const auto run = target_.with_drafts(sampled(3), proposer, 3);
  EXPECT_EQ(run.tokens, target_.plain(sampled(3)));
  EXPECT_GT(run.accepted, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, Speculation, ::testing::Values("llama", "qwen2", "qwen3", "gemma3", "llama_rope_yarn"),
                         [](const auto& row) { return row.param; });

// --- the draft model's limits ---

TEST(DraftModel, CatchesUpByBatchesAndGivesItsPagesBack) {
  Loaded draft(golden_path("tiny/llama.gguf"), "", 1, exact_options(kContext, 16));
  const auto prompt = read_json(golden_path("tiny/llama.json")).at("prompt").get<Tokens>();
  ASSERT_EQ(prompt.size(), 40u);
  engine::DraftModelProposer proposer(draft.runner, greedy(), engine::Guess::drawn);
  engine::Draft guesses;
  std::vector<size_t> counts;
  for (int i = 0; i < 4; ++i) {
    proposer.propose(prompt, 4, guesses);
    counts.push_back(guesses.tokens.size());
  }
  EXPECT_EQ(counts, (std::vector<size_t>{0, 0, 4, 4})) << "16, 16, then 8 tokens and the drafts";
  const int64_t pages = draft.runner.cache().pool(0).pages();
  EXPECT_LT(draft.runner.cache().pool(0).available_pages(), pages);
  proposer.reset();
  EXPECT_EQ(draft.runner.cache().pool(0).available_pages(), pages);
  // Another sequence after a reset, as by a new proposer.
  const auto other = std::span(prompt).first(7);
  proposer.propose(other, 4, guesses);
  const Tokens after_reset = guesses.tokens;
  engine::DraftModelProposer fresh(draft.runner, greedy(), engine::Guess::drawn);
  fresh.propose(other, 4, guesses);
  EXPECT_EQ(guesses.tokens, after_reset);
}

TEST(DraftModel, ReadsTheEndOfATextAndLaterMoreOfIt) {
  Loaded draft(golden_path("tiny/llama.gguf"), "", 1, exact_options(kContext, 16));
  const auto prompt = read_json(golden_path("tiny/llama.json")).at("prompt").get<Tokens>();
  engine::DraftModelProposer proposer(draft.runner, greedy(), engine::Guess::likeliest);
  const auto expect_lag = [&](std::span<const int32_t> tokens, int64_t left_out, int64_t held, int64_t behind) {
    const engine::Lag lag = proposer.lag(tokens);
    EXPECT_EQ((std::array{lag.left_out, lag.held, lag.behind}), (std::array{left_out, held, behind}));
  };
  const auto guess_after = [&](std::span<const int32_t> tokens) {
    engine::DraftModelProposer whole(draft.runner, greedy(), engine::Guess::likeliest);
    engine::Draft guesses;
    while (guesses.tokens.empty()) whole.propose(tokens, 3, guesses);
    return guesses.tokens;
  };
  const auto all = std::span<const int32_t>(prompt);
  expect_lag(all, 0, 0, 39);
  ASSERT_TRUE(proposer.catch_up(all, 10));
  expect_lag(all, 29, 10, 0);
  engine::Draft guesses;
  proposer.propose(all, 3, guesses);
  EXPECT_EQ(guesses.tokens, guess_after(all.last(11))) << "as of a text that begins there";
  // Two of three stand, and another token follows: nothing to catch up.
  Tokens longer = prompt;
  longer.insert(longer.end(), guesses.tokens.begin(), guesses.tokens.begin() + 2);
  longer.push_back(7);
  expect_lag(longer, 29, 13, 0);
  ASSERT_TRUE(proposer.catch_up(longer, 42));
  expect_lag(longer, 0, 42, 0);
  proposer.propose(longer, 3, guesses);
  EXPECT_EQ(guesses.tokens, guess_after(longer));
}

TEST(DraftModel, GuessesNothingBeyondItsContextAndWithoutPages) {
  Loaded draft(golden_path("tiny/llama.gguf"), "", 1, exact_options(64, 64));
  const auto prompt = read_json(golden_path("tiny/llama.json")).at("prompt").get<Tokens>();
  Tokens tokens = prompt;
  tokens.insert(tokens.end(), prompt.begin(), prompt.begin() + 22);  // 62
  engine::DraftModelProposer proposer(draft.runner, greedy(), engine::Guess::drawn);
  engine::Draft guesses;
  proposer.propose(tokens, 8, guesses);
  EXPECT_EQ(guesses.tokens.size(), 3u) << "two that the context holds, and the one that they predict";
  engine::DraftModelProposer second(draft.runner, greedy(), engine::Guess::drawn);
  second.propose(tokens, 8, guesses);
  EXPECT_TRUE(guesses.tokens.empty()) << "the first one holds the only page";
  tokens.insert(tokens.end(), 3, 5);
  proposer.propose(tokens, 8, guesses);
  EXPECT_TRUE(guesses.tokens.empty());
}

TEST(DraftModel, RefusesAnotherVocabulary) {
  const auto model = [](const char* name) { return model::Model(gguf::File(golden_path(name))); };
  const auto llama = model("tiny/llama.gguf"), qwen = model("tiny/qwen3.gguf");
  engine::check_same_vocabulary(llama, model("tiny/llama.gguf"));
  try {
    engine::check_same_vocabulary(llama, qwen);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_THAT(error.what(), HasSubstr("the draft model's vocabulary is not that of the model: "));
    fmt::print("{}\n", error.what());
  }
}

}  // namespace
}  // namespace minfer::test
