// A steady decode allocates nothing: reserve, step and commit of a sequence, over ends of pages, with pages given up
// and found ones evicted. A program of its own, because it counts every call of operator new.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "engine/kv/test_fake_store.hpp"

namespace {

int64_t allocations = 0;

}  // namespace

void* operator new(size_t bytes) {
  ++allocations;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t /*bytes*/) noexcept {
  std::free(memory);
}

namespace minfer::engine {
namespace {

TEST(SteadyDecode, TheCountingOperatorNewCounts) {
  const int64_t before = allocations;
  const std::vector<int32_t> some(3);
  EXPECT_EQ(allocations, before + 1);
}

TEST(SteadyDecode, AllocatesNothing) {
  constexpr int64_t kTokens = 1000;
  constexpr std::array<testing::FakeCache::Group, 2> kGroups = {{{0, 36}, {100, 8}}};
  testing::FakeCache fake(kGroups, kTokens);
  const std::vector<int32_t> prompt(150, 1);
  Sequence sequence(fake.cache, true);
  fake.append(sequence, prompt);
  Sequence other = sequence.fork();  // the first token copies a page
  const int64_t before = allocations;
  bool done = true;
  for (int32_t i = 0; i < 800; ++i) {
    const std::array<int32_t, 1> id = {i};
    done = done && fake.append(sequence, id) && fake.append(other, id);
  }
  EXPECT_EQ(allocations, before);
  EXPECT_TRUE(done);
  EXPECT_EQ(sequence.length(), 950);
  EXPECT_GT(fake.cache.pool(1).evictions(), 0) << "else no eviction was tested";
}

}  // namespace
}  // namespace minfer::engine
