// What the batcher costs beside the device: steps of many greedy streams on a device that draws and computes nothing;
// or with `card` the steps of a user on the first real device, of which the batcher's part is hidden behind the
// device's. Usage: batcher_bench MODEL.gguf [STREAMS [STEPS [card]]]; a small model will do,
// tests/golden/tiny/llama.gguf for instance.
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
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
constexpr int64_t kMostStreams = 128;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// The same token for every row.
class NoExecutable final : public graph::Executable {
 public:
  void submit(const graph::StepData& step, std::span<const std::span<const float>>) override {
    drawn_[submitted_++ % drawn_.size()].assign(step.output_rows.size(), {5, graph::DrawStatus::ok, -1, 0.0F, 0.0F});
  }
  graph::StepResult wait() override { return {{}, drawn_[waited_++ % drawn_.size()]}; }
  std::span<const float> exported(size_t) const override { return {}; }

 private:
  std::array<std::vector<graph::Drawn>, graph::kMostStepsInFlight> drawn_;
  size_t submitted_ = 0;
  size_t waited_ = 0;
};

// The CPU, but for running.
class NoDevice final : public graph::ForwardingBackend {
 public:
  NoDevice() : ForwardingBackend(device_factories().back().create({1, {}})) {}
  bool draws() const override { return true; }
  std::unique_ptr<graph::Executable> compile(graph::Graph, graph::MemoryPlan, const graph::WeightSet&, graph::KvStore&,
                                             graph::Workspace&) override {
    return std::make_unique<NoExecutable>();
  }
};

// Words that no model file needs to have: synthetic models have none.
tokenizer::VocabData made_up_vocab(int64_t size, std::vector<std::string>& texts) {
  tokenizer::VocabData data;
  data.model = "llama";
  for (int64_t id = 0; id < size; ++id) texts.push_back("word" + std::to_string(id));
  data.tokens.assign(texts.begin(), texts.end());
  data.scores.assign(texts.size(), 0.0F);
  return data;
}

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

void measure(const std::string& path, int64_t streams, int64_t steps, bool card) {
  const model::Model model{gguf::File(path)};
  std::vector<std::string> texts;
  const tokenizer::Tokenizer tokenizer(card ? made_up_vocab(model.config().vocabulary, texts)
                                            : model::read_vocab(model.file()));
  const std::unique_ptr<graph::Backend> device =
      card ? device_factories().front().create({}) : std::make_unique<NoDevice>();
  engine::RunnerOptions options;
  options.context_tokens = steps + 64;
  options.sequences = streams;
  options.outputs = kMostStreams;
  engine::Runner runner(model, *device, options, {});
  engine::BatcherOptions batching;
  batching.max_running = streams;
  engine::Batcher batcher(runner, tokenizer, batching);
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
  std::printf("%ld streams: %.1f us a step (least %.1f)\n", streams, sum / static_cast<double>(steps), best);
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
  const bool card = argc == 5 && std::strcmp(argv[4], "card") == 0;
  if (argc < 2 || argc > 5 || (argc == 5 && !card)) {
    std::fprintf(stderr, "usage: batcher_bench MODEL.gguf [STREAMS [STEPS [card]]]\n");
    return 2;
  }
  try {
    const int64_t streams = argc > 2 ? number(argv[2], 1, kMostStreams) : kStreams;
    measure(argv[1], streams, argc > 3 ? number(argv[3], 1, 1 << 20) : 1000, card);
  } catch (const Error& error) {
    std::fprintf(stderr, "batcher_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
