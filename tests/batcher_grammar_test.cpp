// Answers held to a grammar: they match it; each request gets the tokens that it gets alone, whatever else runs, on the
// CPU and on a device that draws; tokens that the grammar forces take no step of their own and change nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "batcher_runs.hpp"
#include "engine/grammar/gbnf.hpp"
#include "engine/grammar/grammar_oracle.hpp"
#include "engine/grammar/token_table.hpp"
#include "engine/speculation/ngram_proposer.hpp"
#include "late_device.hpp"
#include "model/vocab.hpp"
#include "model_runs.hpp"

namespace minfer::test {
namespace {

using engine::grammar::GrammarOracle;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Letters have tokens of their own, alone and together, and a byte's; capitals and digits a byte's alone.
constexpr const char* kGrammars[] = {
    "root ::= [a-z]{1,4} (\" \" [a-z]{1,4}){0,30} \".\"",
    "root ::= \"[\" item (\",\" item)* \"]\"\nitem ::= [0-9]{1,3} | root | \"the \" [a-z]+",
    "root ::= (\"NAME\" [a-z]+ \"VALUE\" [0-9a] \";\\n\")+",
    "root ::= \"ABC\" | \"ABD\" root",
};

engine::Request request_of(std::shared_ptr<const engine::grammar::Grammar> grammar, float temperature, uint64_t seed) {
  engine::Request request;
  request.prompt = {1, 40, 50, 60, 70};
  request.max_tokens = 60;
  request.sampler.temperature = temperature;
  request.sampler.seed = seed;
  request.grammar = std::move(grammar);
  return request;
}

class BatcherGrammar : public ::testing::Test {
 protected:
  std::shared_ptr<const engine::grammar::Grammar> compiled(const std::string& text) {
    asts_.push_back(engine::grammar::parse_gbnf(text, "test"));
    return engine::grammar::compile(asts_.back(), table_);
  }
  std::vector<Job> jobs(uint32_t seed) {
    auto jobs = random_jobs(16, 288, 100, 120, seed);
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (i % 4 == 3) continue;
      jobs[i].request.grammar = compiled(kGrammars[i % std::size(kGrammars)]);
      jobs[i].request.top_logprobs = i % 5 == 0 ? 0 : -1;
    }
    return jobs;
  }
  // The answer begins a text that matches, and is one where it has ended.
  static void expect_match(const std::string& grammar, const Outcome& outcome) {
    const auto ast = engine::grammar::parse_gbnf(grammar, "test");
    GrammarOracle oracle(ast);
    EXPECT_TRUE(oracle.begins(outcome.text)) << outcome.text;
    if (outcome.result.reason == engine::StopReason::end_of_generation) {
      EXPECT_TRUE(oracle.matches(outcome.text)) << outcome.text;
    }
  }
  Outcome run(engine::Request request, engine::BatcherStats* stats = nullptr, bool guesses = false) {
    engine::BatcherOptions options;
    options.share_prefixes = false;
    options.draft_depth = guesses ? 4 : 0;
    if (guesses)
      options.make_proposer = [](const engine::Request&) { return std::make_unique<engine::NgramProposer>(); };
    engine::Batcher batcher(loaded_.runner, tokenizer_, options);
    Outcome outcome;
    batcher.submit(std::move(request), listener_of(outcome));
    while (batcher.step()) {
    }
    if (stats != nullptr) *stats = batcher.stats();
    return outcome;
  }

  Loaded loaded_{golden_path("tiny/llama.gguf"), "scalar", 1, exact_options(320, 48, 2)};
  tokenizer::Tokenizer tokenizer_{model::read_vocab(loaded_.model.file())};
  std::shared_ptr<const engine::grammar::TokenTable> table_ = engine::grammar::make_token_table(tokenizer_);
  std::vector<engine::grammar::Ast> asts_;
};

TEST_F(BatcherGrammar, EachRequestGetsTheTokensThatItGetsAlone) {
  for (uint32_t seed = 1; seed <= 2; ++seed) {
    const auto all = jobs(seed);
    engine::BatcherStats stats;
    const auto together = run_together(loaded_.runner, tokenizer_, all, stats);
    for (size_t i = 0; i < all.size(); ++i) {
      SCOPED_TRACE("request " + std::to_string(i));
      ASSERT_FALSE(together[i].result.error) << together[i].result.error->what();
      if (i % 4 != 3) expect_match(kGrammars[i % 4], together[i]);
      if (together[i].result.reason == engine::StopReason::cancelled) continue;
      const Outcome alone = run(all[i].request);
      EXPECT_EQ(together[i].tokens, alone.tokens);
      EXPECT_EQ(together[i].result.reason, alone.result.reason);
    }
    EXPECT_GT(stats.preemptions, 0);
  }
}

TEST_F(BatcherGrammar, ADeviceThatDrawsGivesTheSame) {
  const auto cpu = device_factories().back().create({1, {}});
  LateDevice late(device_factories().back().create({1, {}}));
  engine::Runner plain(loaded_.model, *cpu, exact_options(320, 48, 2), {});
  engine::Runner ahead(loaded_.model, late, exact_options(320, 48, 2), {});
  for (uint32_t seed = 3; seed <= 4; ++seed) {
    const auto all = jobs(seed);
    engine::BatcherStats stats;
    const auto together = run_together(ahead, tokenizer_, all, stats);
    for (size_t i = 0; i < all.size(); ++i) {
      SCOPED_TRACE("request " + std::to_string(i));
      ASSERT_FALSE(together[i].result.error) << together[i].result.error->what();
      if (together[i].result.reason == engine::StopReason::cancelled) continue;
      const Outcome alone = run_alone(plain, tokenizer_, all[i].request);
      EXPECT_EQ(together[i].tokens, alone.tokens);
      EXPECT_EQ(together[i].result.reason, alone.result.reason);
    }
  }
}

// With log-probabilities each token is drawn.
TEST_F(BatcherGrammar, ForcedTokensTakeNoStepAndChangeNothing) {
  for (const char* text : kGrammars) {
    for (const float temperature : {0.0F, 0.9F}) {
      engine::Request request = request_of(compiled(text), temperature, 7);
      engine::BatcherStats forced_stats, drawn_stats;
      const Outcome forced = run(request, &forced_stats);
      request.top_logprobs = 0;
      const Outcome drawn = run(request, &drawn_stats);
      EXPECT_EQ(forced.tokens, drawn.tokens) << text;
      EXPECT_EQ(forced.text, drawn.text);
      EXPECT_EQ(forced.result.reason, drawn.result.reason);
      EXPECT_EQ(forced.result.generated_tokens, drawn.result.generated_tokens);
      EXPECT_EQ(drawn_stats.steps, drawn.result.generated_tokens);
      EXPECT_LE(forced_stats.steps, drawn_stats.steps);
    }
  }
  // Of 13 tokens two are drawn.
  engine::BatcherStats stats;
  const Outcome outcome =
      run(request_of(compiled("root ::= (\"NAME\" [a-z] \"VALUE\" [ab] \";\\n\"){4}"), 0.9F, 1), &stats);
  EXPECT_EQ(outcome.result.generated_tokens, 13 * 4);
  EXPECT_EQ(stats.steps, 1 + 2 * 4);
}

TEST_F(BatcherGrammar, EndsWithTheGrammarOrWithItsTokens) {
  const auto grammar = compiled("root ::= \"ABCDEFGH\"");
  engine::BatcherStats stats;
  Outcome outcome = run(request_of(grammar, 0, 1), &stats);
  EXPECT_EQ(outcome.text, "ABCDEFGH");
  EXPECT_EQ(outcome.result.reason, engine::StopReason::end_of_generation);
  EXPECT_EQ(outcome.result.generated_tokens, 8);
  EXPECT_EQ(stats.steps, 1);
  engine::Request request = request_of(grammar, 0, 1);
  request.max_tokens = 5;
  outcome = run(request);
  EXPECT_EQ(outcome.text, "ABCDE");
  EXPECT_EQ(outcome.result.reason, engine::StopReason::max_tokens);
  request.max_tokens = 8;
  EXPECT_EQ(run(request).result.reason, engine::StopReason::end_of_generation);
  request.stops = {"CD"};
  outcome = run(request);
  EXPECT_EQ(outcome.text, "AB");
  EXPECT_EQ(outcome.result.reason, engine::StopReason::stop_string);
  // Nothing but the end may come: the end token is drawn.
  outcome = run(request_of(compiled("root ::= \"\""), 0.9F, 1));
  EXPECT_EQ(outcome.tokens, (std::vector<int32_t>{2}));
  EXPECT_EQ(outcome.text, "");
}

TEST_F(BatcherGrammar, GuessesChangeNothing) {
  for (const char* text : kGrammars) {
    for (const float temperature : {0.0F, 0.9F}) {
      for (const int32_t top_logprobs : {-1, 0}) {
        engine::Request request = request_of(compiled(text), temperature, 11);
        request.top_logprobs = top_logprobs;
        const Outcome plain = run(request);
        const Outcome guessed = run(request, nullptr, true);
        EXPECT_EQ(guessed.tokens, plain.tokens) << text;
        EXPECT_EQ(guessed.result.reason, plain.result.reason);
        EXPECT_EQ(guessed.result.generated_tokens, plain.result.generated_tokens);
      }
    }
  }
}

TEST_F(BatcherGrammar, AFullContextStopsOrShifts) {
  engine::Request request = request_of(compiled("root ::= (\"NAME\" [a-z] \"VALUE\" [0-9] \";\\n\"){200}"), 0.9F, 3);
  request.max_tokens = 700;
  Outcome outcome = run(request);
  EXPECT_EQ(outcome.result.reason, engine::StopReason::context_full);
  EXPECT_EQ(outcome.result.generated_tokens, 320 - 5 + 1);
  request.overflow = engine::Overflow::shift;
  request.keep_tokens = 5;
  outcome = run(request);
  EXPECT_EQ(outcome.result.reason, engine::StopReason::max_tokens);
  EXPECT_GT(outcome.result.shifts, 0);
  EXPECT_THAT(outcome.text, StartsWith("NAME"));
  GrammarOracle oracle(asts_.back());
  EXPECT_TRUE(oracle.begins(outcome.text)) << outcome.text;
}

TEST_F(BatcherGrammar, ASessionGoesOnWithAnotherGrammar) {
  const std::string path = ::testing::TempDir() + "grammar_session.minfer";
  std::filesystem::remove(path);
  engine::Request request = request_of(compiled("root ::= \"ABC\" [a-z] \"D\""), 0, 1);
  request.session_path = path;
  EXPECT_THAT(run(request).text, StartsWith("ABC"));
  request.grammar = compiled("root ::= [0-9]{3}");
  const Outcome outcome = run(request);
  EXPECT_EQ(outcome.text.size(), 3U);
  EXPECT_EQ(outcome.result.session_tokens, 10);
  EXPECT_EQ(outcome.result.reason, engine::StopReason::end_of_generation);
  std::filesystem::remove(path);
}

TEST_F(BatcherGrammar, ErrorsEndTheRequest) {
  engine::Request request = request_of(compiled("root ::= \"AB\""), 0, 1);
  request.sampler.logit_bias = {{68, -std::numeric_limits<float>::infinity()}};  // "A"
  const Outcome outcome = run(request);
  ASSERT_TRUE(outcome.result.error);
  EXPECT_THAT(outcome.result.error->what(), HasSubstr("every token is forbidden by logit_bias"));
  const auto other = std::make_shared<engine::grammar::TokenTable>(std::vector<engine::grammar::TokenTable::Token>(3));
  engine::Batcher batcher(loaded_.runner, tokenizer_, {});
  request.grammar = engine::grammar::compile(asts_.back(), other);
  try {
    batcher.submit(request, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the grammar is of a vocabulary of 3 tokens, the model's has 288"));
  }
  const auto wordless =
      std::make_shared<engine::grammar::TokenTable>(std::vector<engine::grammar::TokenTable::Token>(288));
  request.grammar = engine::grammar::compile(asts_.back(), wordless);
  const Outcome none = run(request);
  ASSERT_TRUE(none.result.error);
  EXPECT_THAT(none.result.error->what(), HasSubstr("no token of the model's vocabulary goes on with the grammar"));
}

}  // namespace
}  // namespace minfer::test
