// Encoders on a card, against transformers: vectors of texts of few and of many tokens together. Needs a card: part of
// scripts/gpu-gate. Bounds: cuda_model_test.cpp; steps of more than 8 rows multiply in tf32.
#include <gtest/gtest.h>

#include "batcher_runs.hpp"
#include "cuda_model_runs.hpp"
#include "model/vocab.hpp"

namespace minfer::test {
namespace {

constexpr double kTf32 = 1e-2;

class CudaEncoders : public ::testing::TestWithParam<std::string> {};

TEST_P(CudaEncoders, MatchTransformers) {
  const auto json = read_json(golden_path("tiny/" + GetParam() + ".json"));
  const auto& texts = json.at("texts");
  const model::Model model{gguf::File(golden_path("tiny/" + GetParam() + ".gguf"))};
  const tokenizer::Tokenizer tokenizer(model::read_vocab(model.file()));
  for (const bool fuse : {true, false}) {
    engine::RunnerOptions options = exact_options(128, 16, 4);
    options.fuse = fuse;
    engine::Runner runner(model, card(), options, {});
    engine::BatcherOptions limits;
    limits.max_running = 4;
    engine::Batcher batcher(runner, tokenizer, limits);
    std::vector<Outcome> outcomes(texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      engine::Request request;
      request.prompt = texts[i].at("ids").get<std::vector<int32_t>>();
      request.pooling = engine::Pooling::of_model;
      batcher.submit(std::move(request), listener_of(outcomes[i]));
    }
    while (batcher.step()) {
    }
    for (size_t i = 0; i < texts.size(); ++i) {
      ASSERT_FALSE(outcomes[i].result.error) << outcomes[i].result.error->what();
      const auto expected = texts[i].at("pooled").get<std::vector<float>>();
      EXPECT_LE(relative_error(outcomes[i].result.embedding, expected), kTf32) << "text " << i << ", fused " << fuse;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, CudaEncoders, ::testing::Values("bert", "nomic_bert"),
                         [](const auto& row) { return row.param; });

}  // namespace
}  // namespace minfer::test
