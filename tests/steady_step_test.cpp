// A steady step of the batcher allocates nothing: greedy, sampled and penalized streams that decode on the CPU with
// listeners and stop strings, over ends of pages. A program of its own, because it counts every call of operator new,
// on all threads. Warm-up is what the streams' buffers need to reach their size. One stream draws the longest
// token all the time.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/batcher.hpp"
#include "engine/stop_matcher.hpp"
#include "late_device.hpp"
#include "model/vocab.hpp"
#include "model_runs.hpp"

namespace {

std::atomic<int64_t>& allocations() {
  static std::atomic<int64_t> count = 0;
  return count;
}

void* counted(std::size_t size, std::size_t alignment) noexcept {
  ++allocations();
  const std::size_t rounded = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment * alignment;
  return alignment > alignof(std::max_align_t) ? std::aligned_alloc(alignment, rounded) : std::malloc(rounded);
}

void* counted_or_throw(std::size_t size, std::size_t alignment) {
  void* memory = counted(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) {
  return counted_or_throw(size, 1);
}
void* operator new[](std::size_t size) {
  return counted_or_throw(size, 1);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return counted_or_throw(size, static_cast<std::size_t>(alignment));
}
// std::stable_sort asks for its buffer this way.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return counted(size, 1);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

namespace minfer::test {
namespace {

// None of them ends by itself.
engine::Request endless(const tokenizer::Tokenizer& tokenizer) {
  engine::Request request;
  request.prompt = {1, 2, 3, 4, 5};
  for (int32_t token = 0; token < static_cast<int32_t>(tokenizer.vocab().size()); ++token) {
    if (tokenizer.vocab().is_end_of_generation(token)) request.sampler.logit_bias.emplace_back(token, -1000.0F);
  }
  return request;
}

int32_t longest_token(const tokenizer::Tokenizer& tokenizer) {
  int32_t longest = 0;
  size_t most = 0;
  for (int32_t token = 0; token < static_cast<int32_t>(tokenizer.vocab().size()); ++token) {
    if (tokenizer.vocab().type(token) != tokenizer::TokenType::normal) continue;
    const size_t size = tokenizer.vocab().text(token).size();
    if (size > most) most = size, longest = token;
  }
  return longest;
}

std::vector<engine::Request> kinds_of_requests(const tokenizer::Tokenizer& tokenizer) {
  std::vector<engine::Request> requests(8, endless(tokenizer));
  requests[0].sampler.temperature = 0;
  requests[1].sampler.seed = 1;
  requests[2].sampler.top_k = 0;
  requests[2].sampler.seed = 2;
  requests[3].sampler.repeat_penalty = 1.1F;
  requests[3].stops = {"a text that no model says", "\t\t\n\nnor that"};
  requests[4].sampler.mirostat = 2;
  requests[4].prompt.assign(40, 7);  // its pages end at other steps
  requests[5].sampler.dry_multiplier = 0.8F;
  requests[6].sampler.logit_bias.emplace_back(longest_token(tokenizer), 1000.0F);
  requests[7].top_logprobs = engine::kMostTopLogprobs;
  return requests;
}

engine::RunnerOptions options_for_all() {
  engine::RunnerOptions options = fast_options(512, 64);
  options.sequences = 8;
  return options;
}

constexpr int kWarmUp = 20, kSteps = 160;

void expect_steady(engine::Runner& runner, const tokenizer::Tokenizer& tokenizer,
                   const std::vector<engine::Request>& requests, const std::string& where) {
  engine::Batcher batcher(runner, tokenizer, {});
  size_t tokens = 0, bytes = 0;
  for (const engine::Request& request : requests) {
    batcher.submit(request,
                   {[&](const engine::DrawnToken&, std::string_view text) { ++tokens, bytes += text.size(); }, {}});
  }
  for (int i = 0; i < kWarmUp; ++i) ASSERT_TRUE(batcher.step());
  tokens = bytes = 0;
  const int64_t before = allocations();
  int64_t steps_that_allocate = 0;
  for (int i = 0; i < kSteps; ++i) {
    const int64_t at_start = allocations();
    batcher.step();
    steps_that_allocate += allocations() != at_start ? 1 : 0;
  }
  EXPECT_EQ(allocations() - before, 0) << "in " << steps_that_allocate << " of " << kSteps << " steps on " << where;
  EXPECT_EQ(tokens, kSteps * requests.size()) << "else a stream has ended";
  EXPECT_GT(bytes, tokens) << "else no text was made";
}

void expect_steady(const std::string& path, const std::string& isa) {
  Loaded loaded(path, isa, 2, options_for_all());
  const tokenizer::Tokenizer tokenizer(model::read_vocab(loaded.model.file()));
  expect_steady(loaded.runner, tokenizer, kinds_of_requests(tokenizer), isa);
}

TEST(SteadyStep, TheCountingOperatorNewCounts) {
  const int64_t before = allocations();
  const std::vector<int32_t> some(3);
  EXPECT_EQ(allocations(), before + 1);
}

TEST(SteadyStep, StopStringsLetLongPiecesThroughWithoutAllocating) {
  engine::StopMatcher matcher({"the end of it all"});
  const std::string piece = "a piece longer than a string holds inside, with the end";
  std::string shown;
  shown.reserve(40 * piece.size());
  for (int i = 0; i < 4; ++i) shown += matcher.push(piece);
  const int64_t before = allocations();
  for (int i = 0; i < 20; ++i) shown += matcher.push(piece);
  EXPECT_EQ(allocations(), before);
  shown += matcher.finish();
  EXPECT_EQ(shown.size(), 24 * piece.size());
}

TEST(SteadyStep, OfATinyModelAllocatesNothing) {
  for (const std::string& isa : available_isas()) {
    expect_steady(golden_path("tiny/llama.gguf"), isa);
    expect_steady(golden_path("tiny/qwen2moe.gguf"), isa);
  }
}

// On a device that draws, with the next step always in flight.
TEST(SteadyStep, SubmittedAheadAllocatesNothing) {
  LateDevice late(device_factories().back().create({2, {}}));
  const model::Model model{gguf::File(golden_path("tiny/llama.gguf"))};
  engine::Runner runner(model, late, options_for_all(), {});
  const tokenizer::Tokenizer tokenizer(model::read_vocab(model.file()));
  auto requests = kinds_of_requests(tokenizer);
  // DRY and Mirostat need the tokens of the step before.
  std::erase_if(requests, [](const engine::Request& request) {
    return request.sampler.mirostat != 0 || request.sampler.dry_multiplier != 0;
  });
  expect_steady(runner, tokenizer, requests, "a late device");
  EXPECT_GT(late.queue.ahead, kSteps);
}

TEST(SteadyStep, OfARealModelAllocatesNothing) {
  const std::string path = model_path("smollm2-135m");
  if (is_absent(path)) GTEST_SKIP() << path << " is absent";
  for (const std::string& isa : available_isas()) {
    if (isa != "scalar") expect_steady(path, isa);
  }
}

}  // namespace
}  // namespace minfer::test
