// Embeddings of decoder models: the hidden state that comes out is the one that the logits are made of, whatever else
// runs; they share the device with streams by turns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "batcher_runs.hpp"
#include "late_device.hpp"
#include "model/vocab.hpp"
#include "model_runs.hpp"
#include "tensor/dtype.hpp"

namespace minfer::test {
namespace {

using engine::Pooling;
using ::testing::HasSubstr;

class Embeddings : public ::testing::TestWithParam<std::string> {
 protected:
  Embeddings()
      : loaded_(golden_path("tiny/" + GetParam() + ".gguf"), "", 1, options()),
        tokenizer_(model::read_vocab(loaded_.model.file())) {}

  static engine::RunnerOptions options(int64_t sequences = 4) {
    engine::RunnerOptions options = exact_options(320, 96, sequences);
    options.outputs = 24;
    return options;
  }
  static engine::BatcherOptions batcher_options() {
    engine::BatcherOptions options;
    options.max_running = 24;
    return options;
  }
  static engine::Request text(int64_t tokens, Pooling pooling, int32_t first = 3) {
    engine::Request request;
    for (int64_t i = 0; i < tokens; ++i) request.prompt.push_back(first + static_cast<int32_t>(i * 7 % 150));
    request.pooling = pooling;
    return request;
  }
  static engine::Request stream(int64_t tokens) {
    engine::Request request;
    request.prompt = {5, 6, 7};
    request.max_tokens = tokens;
    request.sampler.temperature = 0;
    for (int32_t token = 250; token < 288; ++token) request.sampler.logit_bias.emplace_back(token, -1000.0F);
    for (int32_t token = 0; token < 3; ++token) request.sampler.logit_bias.emplace_back(token, -1000.0F);
    return request;
  }
  Outcome alone(const engine::Request& request) { return alone(loaded_.runner, request); }
  Outcome alone(engine::Runner& runner, const engine::Request& request) {
    engine::BatcherOptions options = batcher_options();
    options.share_prefixes = false;
    engine::Batcher batcher(runner, tokenizer_, options);
    Outcome outcome;
    batcher.submit(request, listener_of(outcome));
    while (batcher.step()) {
    }
    EXPECT_FALSE(outcome.result.error) << outcome.result.error->what();
    return outcome;
  }
  std::vector<float> embedding(const engine::Request& request) { return alone(request).result.embedding; }

  // The output matrix as the file has it, times a hidden state.
  std::vector<float> logits_of(std::span<const float> hidden) {
    const gguf::File& file = loaded_.model.file();
    const gguf::TensorInfo* matrix = file.find_tensor("output.weight");
    if (matrix == nullptr) matrix = file.find_tensor("token_embd.weight");
    const auto rows = static_cast<size_t>(loaded_.model.config().vocabulary);
    const auto width = static_cast<size_t>(loaded_.model.config().width);
    std::vector<float> weights(rows * width);
    tensor::dtype_info(matrix->dtype).dequantize(matrix->data, static_cast<int64_t>(weights.size()), weights.data());
    std::vector<float> logits;
    for (size_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (size_t i = 0; i < width; ++i) {
        sum += static_cast<double>(weights[row * width + i]) * static_cast<double>(hidden[i]);
      }
      logits.push_back(static_cast<float>(sum));
    }
    return logits;
  }

  Loaded loaded_;
  tokenizer::Tokenizer tokenizer_;
};

TEST_P(Embeddings, TimesTheOutputMatrixAreTheLogits) {
  Loaded exact(golden_path("tiny/" + GetParam() + ".gguf"), "scalar", 1, options());
  for (const int64_t tokens : {1, 3, 96, 97, 200}) {
    const engine::Request request = text(tokens, Pooling::last);
    const Outcome outcome = alone(exact.runner, request);
    ASSERT_EQ(outcome.result.embedding.size(), static_cast<size_t>(loaded_.model.config().width));
    engine::Sequence sequence(exact.runner.cache());
    const auto logits = engine::append(exact.runner, sequence, request.prompt);
    EXPECT_LT(relative_error(logits_of(outcome.result.embedding), logits), 1e-5) << tokens;
    EXPECT_EQ(outcome.result.reason, engine::StopReason::max_tokens);
    EXPECT_EQ(outcome.result.prompt_tokens, tokens);
    EXPECT_EQ(outcome.result.generated_tokens, 0);
    EXPECT_TRUE(outcome.tokens.empty());
    EXPECT_EQ(outcome.text, "");
  }
}

TEST_P(Embeddings, ByTheMeanAreTheMeanOfAllPrefixes) {
  const engine::Request request = text(60, Pooling::mean);
  std::vector<double> sum(static_cast<size_t>(loaded_.model.config().width));
  for (int64_t tokens = 1; tokens <= 60; ++tokens) {
    const auto last = embedding(text(tokens, Pooling::last));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(last[i]);
  }
  std::vector<float> mean;
  for (const double value : sum) mean.push_back(static_cast<float>(value / 60));
  EXPECT_TRUE(same_bits(embedding(request), mean));
}

std::vector<engine::Request> many(const std::function<engine::Request(int64_t, Pooling, int32_t)>& text) {
  std::vector<engine::Request> requests;
  for (int32_t i = 0; i < 10; ++i) {
    requests.push_back(text(1 + 31 * i, i % 3 == 0 ? Pooling::mean : Pooling::last, 3 + i % 2));
  }
  return requests;
}

TEST_P(Embeddings, HaveTheSameBitsInAnyCompany) {
  // Two contexts' worth of pages: some are preempted. The second time prefixes are found.
  Loaded small(golden_path("tiny/" + GetParam() + ".gguf"), "", 1, options(2));
  const auto requests = many(text);
  std::vector<Outcome> streams(3);
  int64_t preemptions = 0;
  for (int round = 0; round < 2; ++round) {
    engine::Batcher batcher(small.runner, tokenizer_, batcher_options());
    std::vector<Outcome> outcomes(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      if (i < streams.size()) {
        streams[i] = {};
        batcher.submit(stream(200), listener_of(streams[i]));
      }
      batcher.submit(requests[i], listener_of(outcomes[i]));
    }
    while (batcher.step()) {
    }
    preemptions += batcher.stats().preemptions;
    for (size_t i = 0; i < requests.size(); ++i) {
      ASSERT_FALSE(outcomes[i].result.error) << outcomes[i].result.error->what();
      EXPECT_TRUE(same_bits(outcomes[i].result.embedding, embedding(requests[i]))) << i;
      if (requests[i].pooling == Pooling::mean) {
        EXPECT_EQ(outcomes[i].result.reused_tokens, 0);
      }
    }
    for (const Outcome& outcome : streams) EXPECT_EQ(outcome.tokens, alone(stream(200)).tokens);
  }
  EXPECT_GT(preemptions, 0);
}

TEST_P(Embeddings, AndStreamsTakeTurns) {
  engine::Batcher batcher(loaded_.runner, tokenizer_, batcher_options());
  Outcome answer;
  batcher.submit(stream(40), listener_of(answer));
  batcher.step();
  ASSERT_EQ(answer.tokens.size(), 1u);
  // Four steps of 96 rows, and nine of 24.
  Outcome last, mean;
  batcher.submit(text(300, Pooling::last), listener_of(last));
  for (size_t step = 1; !last.ended; ++step) {
    batcher.step();
    EXPECT_EQ(answer.tokens.size(), 1 + step / 2);
    ASSERT_LT(step, 8u);
  }
  batcher.submit(text(200, Pooling::mean), listener_of(mean));
  const size_t before = answer.tokens.size();
  size_t steps = 0;
  for (; !mean.ended && steps < 30; ++steps) batcher.step();
  EXPECT_EQ(steps, 18u);
  EXPECT_EQ(answer.tokens.size(), before + 9);
}

TEST_P(Embeddings, ShareAPrefixWithStreams) {
  engine::Batcher batcher(loaded_.runner, tokenizer_, batcher_options());
  Outcome answer, embedded;
  engine::Request request = text(150, Pooling::last);
  request.pooling.reset();
  request.max_tokens = 1;
  batcher.submit(text(150, Pooling::last), listener_of(embedded));
  batcher.submit(request, listener_of(answer));
  while (batcher.step()) {
  }
  EXPECT_EQ(embedded.result.reused_tokens, 0);
  EXPECT_EQ(answer.result.reused_tokens, 128);
  EXPECT_EQ(answer.tokens, alone(request).tokens);
  EXPECT_EQ(batcher.stats().rows, 150 + 22);
}

TEST_P(Embeddings, OfADeviceThatDrawsAreTheSame) {
  LateDevice late(device_factories().back().create({1, ""}));
  engine::Runner ahead(loaded_.model, late, options(), {});
  engine::Batcher batcher(ahead, tokenizer_, batcher_options());
  const auto requests = many(text);
  std::vector<Outcome> outcomes(requests.size());
  Outcome streams[2];
  for (Outcome& outcome : streams) batcher.submit(stream(100), listener_of(outcome));
  for (size_t i = 0; i < requests.size(); ++i) batcher.submit(requests[i], listener_of(outcomes[i]));
  while (batcher.step()) {
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_TRUE(same_bits(outcomes[i].result.embedding, embedding(requests[i]))) << i;
  }
  for (const Outcome& outcome : streams) EXPECT_EQ(outcome.tokens, alone(stream(100)).tokens);
  EXPECT_GT(late.queue.ahead, 20);
}

// The CPU has the first layers, and the device that computes late and draws the others; or the other way round.
TEST_P(Embeddings, OfASplitModelAreTheSame) {
  const auto requests = many(text);
  for (const bool late_first : {false, true}) {
    const auto cpu = device_factories().back().create({1, ""});
    LateDevice late(device_factories().back().create({1, ""}));
    std::vector<graph::Backend*> devices = {cpu.get(), &late};
    if (late_first) std::swap(devices[0], devices[1]);
    engine::RunnerOptions split = options();
    split.device_layers = {1, loaded_.model.config().layers - 1};
    engine::Runner runner(loaded_.model, devices, split, {});
    engine::Batcher batcher(runner, tokenizer_, batcher_options());
    std::vector<Outcome> outcomes(requests.size());
    Outcome streams[2];
    for (Outcome& outcome : streams) batcher.submit(stream(100), listener_of(outcome));
    for (size_t i = 0; i < requests.size(); ++i) batcher.submit(requests[i], listener_of(outcomes[i]));
    while (batcher.step()) {
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      ASSERT_FALSE(outcomes[i].result.error) << outcomes[i].result.error->what();
      EXPECT_TRUE(same_bits(outcomes[i].result.embedding, embedding(requests[i]))) << i;
    }
    for (const Outcome& outcome : streams) EXPECT_EQ(outcome.tokens, alone(stream(100)).tokens);
    EXPECT_GT(late.queue.submitted, 20);
    EXPECT_EQ(late.queue.ahead, 0) << "steps of a split model are not submitted ahead";
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, Embeddings,
                         ::testing::Values("llama", "qwen2", "qwen3", "qwen2moe", "qwen3moe", "gemma3", "gpt_oss"));

TEST(EmbeddingRequests, AreRefusedWithWhatHasNoMeaningForThem) {
  Loaded loaded(golden_path("tiny/llama.gguf"), "", 1, exact_options(64, 32));
  const tokenizer::Tokenizer tokenizer(model::read_vocab(loaded.model.file()));
  engine::Batcher batcher(loaded.runner, tokenizer, {});
  engine::Request requests[2];
  requests[0].session_path = "some";
  requests[1].top_logprobs = 0;
  for (engine::Request& request : requests) {
    request.prompt = {3};
    request.pooling = Pooling::of_model;
    try {
      batcher.submit(request, {});
      FAIL() << "it was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
      EXPECT_THAT(error.what(), HasSubstr("an embedding has no session, grammar or log-probabilities"));
    }
  }
}

}  // namespace
}  // namespace minfer::test
