// What the tests of the batcher share: requests made at random, and what they brought when they ran together or alone.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "engine/batcher.hpp"

namespace minfer::test {

// What a request brought.
struct Outcome {
  std::vector<int32_t> tokens;
  std::string text;
  engine::Result result;
  bool ended = false;
};

inline engine::Listener listener_of(Outcome& outcome) {
  return {[&](const engine::DrawnToken& drawn, std::string_view text) {
            if (drawn.id != engine::kNoToken) outcome.tokens.push_back(drawn.id);
            outcome.text += text;
          },
          [&](const engine::Result& result) {
            outcome.result = result;
            outcome.ended = true;
          }};
}

struct Job {
  engine::Request request;
  int64_t submit_at = 0;   // step
  int64_t cancel_at = -1;  // step, -1: never
};

// Prompts of a few roots, so that prefixes are shared, greedy and sampled, of all lengths.
inline std::vector<Job> random_jobs(size_t count, int64_t vocabulary, int64_t most_prompt, int64_t most_tokens,
                                    uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  std::vector<std::vector<int32_t>> roots(3);
  for (auto& root : roots) {
    for (int64_t i = 0; i < most_prompt; ++i) root.push_back(static_cast<int32_t>(below(vocabulary)));
  }
  std::vector<Job> jobs(count);
  for (size_t i = 0; i < count; ++i) {
    Job& job = jobs[i];
    const auto& root = roots[static_cast<size_t>(below(3))];
    job.request.prompt.assign(root.begin(), root.begin() + 1 + below(most_prompt));
    if (below(2) == 0) job.request.prompt.back() = static_cast<int32_t>(below(vocabulary));
    job.request.max_tokens = 1 + below(most_tokens);
    job.request.sampler.temperature = below(2) == 0 ? 0.0F : 0.9F;
    job.request.sampler.seed = random();
    job.request.sampler.presence_penalty = below(4) == 0 ? 0.5F : 0.0F;
    job.submit_at = below(12);
    job.cancel_at = below(5) == 0 ? job.submit_at + below(20) : -1;
  }
  return jobs;
}

inline std::vector<Outcome> run_together(engine::Runner& runner, const tokenizer::Tokenizer& tokenizer,
                                         const std::vector<Job>& jobs, engine::BatcherStats& stats) {
  engine::Batcher batcher(runner, tokenizer, {});
  std::vector<Outcome> outcomes(jobs.size());
  std::vector<engine::RequestId> ids(jobs.size());
  bool more = true;
  for (int64_t step = 0; more || step < 40; ++step) {
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (jobs[i].submit_at == step) ids[i] = batcher.submit(jobs[i].request, listener_of(outcomes[i]));
      if (jobs[i].cancel_at == step) batcher.cancel(ids[i]);
    }
    more = batcher.step();
  }
  stats = batcher.stats();
  return outcomes;
}

inline Outcome run_alone(engine::Runner& runner, const tokenizer::Tokenizer& tokenizer,
                         const engine::Request& request) {
  engine::BatcherOptions options;
  options.share_prefixes = false;
  engine::Batcher batcher(runner, tokenizer, options);
  Outcome outcome;
  batcher.submit(request, listener_of(outcome));
  while (batcher.step()) {
  }
  return outcome;
}

}  // namespace minfer::test
