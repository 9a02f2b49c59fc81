// A draw allocates nothing once a sampler has warmed up, whatever stages are on. Counts by replacing this program's
// operator new, which the standard allows.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>

#include "engine/sampler/sampler.hpp"

namespace {

std::atomic<int64_t>& allocations() {
  static std::atomic<int64_t> count = 0;
  return count;
}

void* counted(std::size_t size) {
  ++allocations();
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) {
  return counted(size);
}
void* operator new[](std::size_t size) {
  return counted(size);
}
// std::stable_sort asks for its buffer this way.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations();
  return std::malloc(size == 0 ? 1 : size);
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
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

namespace minfer::engine {
namespace {

TEST(SamplerAllocations, AreNoneOnceWarm) {
  constexpr int64_t kVocabulary = 1000;
  std::vector<float> logits;
  for (int64_t i = 0; i < kVocabulary; ++i) logits.push_back(std::sin(static_cast<float>(i)) * 4.0F);
  const auto changed = [](auto change) {
    SamplerParams params;
    params.penalty_last_n = -1;
    change(params);
    return params;
  };
  const std::pair<const char*, SamplerParams> all[] = {
      {"defaults", SamplerParams{}},
      {"greedy", changed([](SamplerParams& p) { p.temperature = 0; })},
      {"every token", changed([](SamplerParams& p) { p.top_k = 0; })},
      {"penalties", changed([](SamplerParams& p) { p.repeat_penalty = 1.1F, p.frequency_penalty = 0.1F; })},
      {"dry", changed([](SamplerParams& p) { p.dry_multiplier = 0.8F, p.dry_allowed_length = 1; })},
      {"typical", changed([](SamplerParams& p) { p.typical_p = 0.7F; })},
      {"xtc", changed([](SamplerParams& p) { p.xtc_probability = 0.5F; })},
      {"mirostat 1", changed([](SamplerParams& p) { p.mirostat = 1; })},
      {"mirostat 2", changed([](SamplerParams& p) { p.mirostat = 2; })}};
  for (const auto& [name, params] : all) {
    Sampler sampler(params, kVocabulary);
    sampler.accept(sampler.sample(logits));
    const int64_t before = allocations();
    for (int i = 0; i < 1100; ++i) sampler.accept(i % 7);
    for (int i = 0; i < 20; ++i) sampler.accept(sampler.sample(logits));
    EXPECT_EQ(allocations() - before, 0) << name;
  }
  Sampler sampler(SamplerParams{}, kVocabulary);
  const int64_t before = allocations();
  for (int i = 0; i < 40000; ++i) sampler.accept(i % 1000);
  EXPECT_EQ(allocations() - before, 0) << "accept";
}

}  // namespace
}  // namespace minfer::engine
