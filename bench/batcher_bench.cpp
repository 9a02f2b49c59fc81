// What the batcher costs beside the device and the sampler: steps of many greedy streams on a device that computes
// nothing. Drawing is timed by itself on the same logits and taken off.
// Usage: batcher_bench MODEL.gguf [STREAMS [STEPS]]; a small model will do, tests/golden/tiny/llama.gguf for instance.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "devices.hpp"
#include "engine/batcher.hpp"
#include "graph/backend_test_support.hpp"
#include "model/model.hpp"
#include "model/vocab.hpp"

namespace minfer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kStreams = 64;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// The same logits for every row.
class NoExecutable final : public graph::Executable {
 public:
  explicit NoExecutable(std::span<const float> logits) : logits_(logits) {}
  std::span<const float> run(const graph::StepData& step, std::span<const std::span<const float>>) override {
    return logits_.first(logits_.size() / kStreams * step.output_rows.size());
  }
  std::span<const graph::Drawn> drawn() const override { return {}; }
  std::span<const float> exported(size_t) const override { return {}; }

 private:
  std::span<const float> logits_;
};

// The CPU, but for running.
class NoDevice final : public graph::ForwardingBackend {
 public:
  explicit NoDevice(int64_t vocabulary) : ForwardingBackend(device_factories().back().create({1, {}})) {
    logits_.resize(static_cast<size_t>(vocabulary * kStreams));
    for (size_t i = 0; i < logits_.size(); ++i)
      logits_[i] = static_cast<float>(i % static_cast<size_t>(vocabulary) % 17);
  }
  std::span<const float> logits() const { return logits_; }
  std::unique_ptr<graph::Executable> compile(graph::Graph, graph::MemoryPlan, const graph::WeightSet&, graph::KvStore&,
                                             graph::Workspace&) override {
    return std::make_unique<NoExecutable>(logits_);
  }

 private:
  std::vector<float> logits_;
};

engine::Request request_of(const tokenizer::Tokenizer& tokenizer) {
  engine::Request request;
  request.prompt = {1, 2, 3};
  request.sampler.temperature = 0;
  // Never an end.
  for (int32_t token = 0; token < static_cast<int32_t>(tokenizer.vocab().size()); ++token) {
    if (tokenizer.vocab().is_end_of_generation(token)) request.sampler.logit_bias.emplace_back(token, -1000.0F);
  }
  return request;
}

double draw_microseconds(const engine::Request& request, std::span<const float> logits, int64_t streams,
                         int64_t steps) {
  std::vector<engine::Sampler> samplers;
  for (int64_t i = 0; i < streams; ++i) samplers.emplace_back(request.sampler, static_cast<int64_t>(logits.size()));
  const auto start = Clock::now();
  for (int64_t step = 0; step < steps; ++step) {
    for (engine::Sampler& sampler : samplers) sampler.accept(sampler.sample(logits));
  }
  return microseconds_since(start) / static_cast<double>(steps);
}

void measure(const std::string& path, int64_t streams, int64_t steps) {
  const model::Model model{gguf::File(path)};
  const tokenizer::Tokenizer tokenizer(model::read_vocab(model.file()));
  const int64_t vocabulary = model.config().vocabulary;
  NoDevice device(vocabulary);
  engine::RunnerOptions options;
  options.context_tokens = steps + 64;
  options.sequences = streams;
  engine::Runner runner(model, device, options, {});
  engine::Batcher batcher(runner, tokenizer, {});
  const engine::Request request = request_of(tokenizer);
  for (int64_t i = 0; i < streams; ++i) batcher.submit(request, {});
  for (int i = 0; i < 10; ++i) batcher.step();  // all decode by then
  double best = 1e30, sum = 0;
  for (int64_t step = 0; step < steps; ++step) {
    const auto start = Clock::now();
    batcher.step();
    const double taken = microseconds_since(start);
    best = std::min(best, taken);
    sum += taken;
  }
  const double draws =
      draw_microseconds(request, device.logits().first(static_cast<size_t>(vocabulary)), streams, steps);
  const double mean = sum / static_cast<double>(steps);
  std::printf("%ld streams: %.1f us a step (least %.1f), of which %.1f us draw %ld tokens: batcher %.1f us\n", streams,
              mean, best, draws, streams, mean - draws);
}

int64_t number(const char* text, int64_t least, int64_t most) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
  if (error != std::errc() || *end != '\0' || value < least || value > most) {
    fail(ErrorCode::invalid_input, "'{}' is no number from {} to {}", text, least, most);
  }
  return value;
}

}  // namespace
}  // namespace minfer

int main(int argc, char** argv) {
  using namespace minfer;
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "usage: batcher_bench MODEL.gguf [STREAMS [STEPS]]\n");
    return 2;
  }
  try {
    const int64_t streams = argc > 2 ? number(argv[2], 1, kStreams) : kStreams;
    measure(argv[1], streams, argc > 3 ? number(argv[3], 1, 1 << 20) : 1000);
  } catch (const Error& error) {
    std::fprintf(stderr, "batcher_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
