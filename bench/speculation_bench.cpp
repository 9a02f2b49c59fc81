// What adaptive guessing from the text costs where its guesses are wrong: streams drawn almost evenly from a few
// letters, so that pairs of tokens come again soon and what followed them does not. A stream with guesses and the same
// one without take turns of kTurnTokens tokens on one runner, so that a change in the machine's speed hits both; they
// draw the same tokens. Each round is a text of its own; the first compiles the steps with guesses.
// With DRAFT.gguf: the same for the guesses of a draft model, behind the text of PROMPT, with tokens drawn from the 40
// likeliest at a temperature of 20 (hardly a guess stands) and the likeliest ones (guesses stand as the text has it).
// Usage: speculation_bench MODEL.gguf [THREADS [TOKENS [ROUNDS [DRAFT.gguf PROMPT]]]]
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "devices.hpp"
#include "engine/batcher.hpp"
#include "engine/speculation/draft_model_proposer.hpp"
#include "engine/speculation/ngram_proposer.hpp"
#include "graph/registry.hpp"
#include "model/model.hpp"
#include "model/vocab.hpp"

namespace minfer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kTurnTokens = 8;
constexpr std::string_view kLetters = "etaoinshrdlucmfwypvbgkqjxzETAOINSHRDLUCMFWYPVBGKQJXZ";

engine::Request request_of(const tokenizer::Tokenizer& tokenizer, size_t letters, int64_t tokens, uint64_t seed) {
  engine::Request request;
  request.prompt = tokenizer.encode("A list of letters:", {});
  request.max_tokens = tokens;
  request.sampler.seed = seed;
  request.sampler.top_k = static_cast<int32_t>(letters);
  request.sampler.top_p = 1;
  request.sampler.min_p = 0;
  request.sampler.temperature = 20;
  for (const char letter : kLetters.substr(0, letters)) {
    const auto ids = tokenizer.encode(std::string(1, letter), {.parse_special = false, .add_special = false});
    if (ids.size() != 1) fail(ErrorCode::unsupported, "'{}' is {} tokens; expected one", letter, ids.size());
    request.sampler.logit_bias.emplace_back(ids[0], 1000.0F);
  }
  return request;
}

engine::Request prompt_request(const tokenizer::Tokenizer& tokenizer, const std::string& prompt, float temperature,
                               int64_t tokens, uint64_t seed) {
  engine::Request request;
  request.prompt = tokenizer.encode(prompt, {});
  request.max_tokens = tokens;
  request.sampler.seed = seed;
  request.sampler.top_k = 40;
  request.sampler.top_p = 1;
  request.sampler.min_p = 0;
  request.sampler.temperature = temperature;
  return request;
}

// A stream alone in a batcher.
struct Side {
  Side(engine::Runner& runner, const tokenizer::Tokenizer& tokenizer, const engine::BatcherOptions& options,
       const engine::Request& request)
      : batcher(runner, tokenizer, options) {
    batcher.submit(request, {[this](const engine::DrawnToken& drawn, std::string_view) { tokens.push_back(drawn.id); },
                             [this](const engine::Result& ended) { result = ended; }});
    while (tokens.empty() && batcher.step()) continue;  // the prompt
  }
  // Decodes until it has so many tokens, or ends.
  void run_to(size_t count) {
    const auto start = Clock::now();
    while (tokens.size() < count && batcher.step()) continue;
    seconds += std::chrono::duration<double>(Clock::now() - start).count();
  }

  engine::Batcher batcher;
  std::vector<int32_t> tokens;
  engine::Result result;
  double seconds = 0;
};

using MakeProposer = decltype(engine::BatcherOptions::make_proposer);

double ratio_of_round(engine::Runner& runner, const tokenizer::Tokenizer& tokenizer, const engine::Request& request,
                      const MakeProposer& make_proposer) {
  engine::BatcherOptions plain_options;
  plain_options.share_prefixes = false;
  engine::BatcherOptions guess_options = plain_options;
  guess_options.make_proposer = make_proposer;
  Side plain(runner, tokenizer, plain_options, request), guess(runner, tokenizer, guess_options, request);
  bool plain_first = true;
  for (int64_t count = 1; count < request.max_tokens; plain_first = !plain_first) {
    count = std::min(count + kTurnTokens, request.max_tokens);
    for (Side* side : {plain_first ? &plain : &guess, plain_first ? &guess : &plain}) {
      side->run_to(static_cast<size_t>(count));
    }
  }
  if (plain.result.error) throw Error(*plain.result.error);
  if (plain.tokens != guess.tokens) fail(ErrorCode::internal, "guesses have changed the tokens");
  const double ratio = plain.seconds / guess.seconds;
  std::printf("  plain %.1f tokens/s, with guesses %.1f: %.3f; %ld of %ld guesses stood\n",
              static_cast<double>(plain.tokens.size() - 1) / plain.seconds,
              static_cast<double>(guess.tokens.size() - 1) / guess.seconds, ratio, guess.result.accepted_tokens,
              guess.result.drafted_tokens);
  std::fflush(stdout);
  return ratio;
}

void print_median(std::vector<double> ratios) {
  std::sort(ratios.begin(), ratios.end());
  std::printf("  median %.3f of plain decoding's rate (%.3f to %.3f)\n", ratios[ratios.size() / 2], ratios.front(),
              ratios.back());
  std::fflush(stdout);
}

struct Options {
  int threads = 0;
  int64_t tokens = 200;
  int64_t rounds = 5;
  std::string draft_path;
  std::string prompt;
};

std::string read_text(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file || text.str().empty()) fail(ErrorCode::io, "{}: can't be read, or is empty", path);
  return text.str();
}

// Models with their runners on one device.
struct Loaded {
  Loaded(const std::string& path, graph::Backend& device, int64_t context)
      : model{gguf::File(path)}, runner(model, device, options_for(context), {}) {}
  static engine::RunnerOptions options_for(int64_t context) {
    engine::RunnerOptions options;
    options.context_tokens = context;
    options.sequences = 2;
    return options;
  }
  model::Model model;
  engine::Runner runner;
};

void measure_draft(Loaded& target, const tokenizer::Tokenizer& tokenizer, graph::Backend& device, int64_t context,
                   const Options& options) {
  Loaded draft(options.draft_path, device, context);
  engine::check_same_vocabulary(target.model, draft.model);
  const auto make = [&](const engine::Request& request) {
    return std::make_unique<engine::DraftModelProposer>(draft.runner, request.sampler, engine::Guess::likeliest);
  };
  for (const float temperature : {20.0F, 0.0F}) {
    std::printf("temperature %.0f\n", static_cast<double>(temperature));
    std::vector<double> ratios;
    for (int64_t round = 0; round < options.rounds; ++round) {
      const auto seed = static_cast<uint64_t>(round + 1);
      const auto request = prompt_request(tokenizer, options.prompt, temperature, options.tokens, seed);
      ratios.push_back(ratio_of_round(target.runner, tokenizer, request, make));
    }
    print_median(std::move(ratios));
  }
}

void measure_letters(Loaded& target, const tokenizer::Tokenizer& tokenizer, const Options& options) {
  const auto make = [](const engine::Request&) { return std::make_unique<engine::NgramProposer>(); };
  for (const size_t letters : {size_t{4}, size_t{10}, size_t{26}, kLetters.size()}) {
    std::printf("%zu letters\n", letters);
    std::vector<double> ratios;
    for (int64_t round = 0; round < options.rounds; ++round) {
      const auto seed = static_cast<uint64_t>(round + 1);
      const auto request = request_of(tokenizer, letters, options.tokens, seed);
      ratios.push_back(ratio_of_round(target.runner, tokenizer, request, make));
    }
    print_median(std::move(ratios));
  }
}

void measure(const std::string& path, const Options& options) {
  const graph::Registry registry(device_factories(), {options.threads, {}});
  // A token has a byte at least.
  const int64_t context = options.tokens + 64 + static_cast<int64_t>(options.prompt.size());
  Loaded target(path, registry.preferred(), context);
  const tokenizer::Tokenizer tokenizer(model::read_vocab(target.model.file()));
  if (options.draft_path.empty()) {
    measure_letters(target, tokenizer, options);
  } else {
    measure_draft(target, tokenizer, registry.preferred(), context, options);
  }
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
  if (argc < 2 || argc == 6 || argc > 7) {
    std::fprintf(stderr, "usage: speculation_bench MODEL.gguf [THREADS [TOKENS [ROUNDS [DRAFT.gguf PROMPT]]]]\n");
    return 2;
  }
  try {
    Options options;
    if (argc > 2) options.threads = static_cast<int>(number(argv[2], 0, 1024));
    if (argc > 3) options.tokens = number(argv[3], 2, 1 << 16);
    if (argc > 4) options.rounds = number(argv[4], 1, 1000);
    if (argc > 5) options.draft_path = argv[5];
    if (argc > 6) options.prompt = read_text(argv[6]);
    measure(argv[1], options);
  } catch (const Error& error) {
    std::fprintf(stderr, "speculation_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
