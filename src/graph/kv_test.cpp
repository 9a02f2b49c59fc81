// What a store is asked is held against its spec.
#include "graph/kv.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.hpp"

namespace minfer::graph {
namespace {

// Group 0 sees all, group 1 a window of 64, group 2 has no layers on this device.
KvSpec spec() {
  KvSpec spec;
  spec.groups = {{0, {0}, 4}, {64, {1}, 3}, {0, {}, 5}};
  return spec;
}

template <class Work>
std::string error_of(Work&& work) {
  try {
    work();
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal);
    return error.what();
  }
}

TEST(KvChecks, PagesOfAStep) {
  const auto check = [](size_t group, int64_t first, int64_t rows, std::vector<int32_t> pages) {
    return error_of([&] { check_pages(spec(), group, first, rows, pages); });
  };
  EXPECT_EQ(check(0, 0, 64, {3}), "");
  EXPECT_EQ(check(0, 0, 65, {3}), "internal error: a sequence of 65 tokens has 1 pages in KV group 0");
  EXPECT_EQ(check(0, 64, 1, {3, 4}), "internal error: page 1 of a sequence is 4; KV group 0 has 4 pages");
  EXPECT_NE(check(0, 64, 1, {-1, 0}), "");
  EXPECT_EQ(check(1, 127, 2, {-1, 0, 2}), "");  // positions 64 .. 128: the first page is not read
  EXPECT_NE(check(1, 126, 2, {-1, 0, 2}), "");  // from 63 on it is
  EXPECT_EQ(check(2, 0, 64, {-1}), "");
}

TEST(KvChecks, Moves) {
  const auto check = [](KvMove move) { return error_of([&] { check_move(spec(), move); }); };
  EXPECT_EQ(check({0, 3, 0, 1, 0, 64, 5}), "");
  EXPECT_EQ(check({0, 1, 9, 1, 4, 10, 5}), "");
  EXPECT_NE(check({0, 1, 4, 1, 9, 10, 5}), "");  // up in its page
  EXPECT_NE(check({0, 4, 0, 1, 0, 64, 5}), "");
  EXPECT_NE(check({1, 0, 0, 3, 0, 64, 5}), "");
  EXPECT_NE(check({3, 0, 0, 1, 0, 64, 5}), "");
  EXPECT_NE(check({0, 0, 1, 1, 0, 64, 5}), "");
  EXPECT_NE(check({0, 0, 0, 1, 0, 0, 5}), "");
}

}  // namespace
}  // namespace minfer::graph
