// Freed memory that is held by the allocator leaves the process.
#include "base/free_memory.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace minfer {
namespace {

// Sanitizers bring their own allocator.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
constexpr bool kIsInstrumented = true;
#else
constexpr bool kIsInstrumented = false;
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsInstrumented = true;
#else
constexpr bool kIsInstrumented = false;
#endif
#ifdef __GLIBC__
constexpr bool kGivesBack = !kIsInstrumented;
#else
constexpr bool kGivesBack = false;
#endif

constexpr size_t kPieceBytes = 4096;
constexpr size_t kPieces = 16384;
constexpr int64_t kTouchedBytes = int64_t{kPieceBytes} * kPieces;

int64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    int64_t kilobytes = 0;
    if (word == "VmRSS:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

// Pieces too small for mappings of their own, one of which stays at the end: freed, the others remain with the heap.
TEST(FreeMemory, GoesBackToTheSystem) {
  std::vector<std::unique_ptr<char[]>> pieces;
  pieces.reserve(kPieces);
  for (size_t i = 0; i < kPieces; ++i) pieces.push_back(std::unique_ptr<char[]>(new char[kPieceBytes]()));
  const std::unique_ptr<char[]> last = std::move(pieces.back());
  pieces.clear();
  const int64_t held = resident_bytes();
  release_free_memory();
  const int64_t left = resident_bytes();
  ASSERT_GT(held, kTouchedBytes / 2);
  EXPECT_LT(left, kGivesBack ? held - kTouchedBytes / 2 : held + kTouchedBytes / 2);
}

}  // namespace
}  // namespace minfer
