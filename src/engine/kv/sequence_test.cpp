// Sequences over pages, one case at a time: what is shared, published, given up and refused. Random operations are in
// sequence_property_test.cpp.
#include "engine/kv/sequence.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/test_support.hpp"
#include "engine/kv/test_fake_store.hpp"

namespace minfer::engine {
namespace {

using testing::FakeCache;
using ::testing::HasSubstr;

// from, from + 1, ...
std::vector<int32_t> ids(int32_t from, size_t count) {
  std::vector<int32_t> result(count);
  std::iota(result.begin(), result.end(), from);
  return result;
}

class SequenceTest : public ::testing::Test {
 protected:
  explicit SequenceTest(std::vector<FakeCache::Group> groups = {{0, 8}, {100, 6}})
      : groups_(std::move(groups)), fake_(groups_, 400) {}

  void append(Sequence& sequence, const std::vector<int32_t>& tokens) { ASSERT_TRUE(fake_.append(sequence, tokens)); }
  PagePool& pool(size_t group) { return fake_.cache.pool(group); }
  // How much of `tokens` a new sequence finds.
  int64_t found(const std::vector<int32_t>& tokens) {
    Sequence sequence(fake_.cache, true);
    return sequence.reuse_prefix(tokens);
  }

  std::vector<FakeCache::Group> groups_;
  FakeCache fake_;
};

TEST_F(SequenceTest, APrefixIsFoundInWholePagesAndLeavesATokenToRun) {
  const auto tokens = ids(0, 200);
  EXPECT_EQ(found(tokens), 0);
  {
    Sequence sequence(fake_.cache, true);
    append(sequence, tokens);
    EXPECT_EQ(found(tokens), 192) << "while it is held";
    Sequence unpublished(fake_.cache);
    append(unpublished, ids(500, 64));
    EXPECT_EQ(found(ids(500, 100)), 0);
  }
  EXPECT_EQ(found(tokens), 192) << "and after";
  EXPECT_EQ(found(ids(0, 192)), 128);
  EXPECT_EQ(found(ids(0, 193)), 192);
  EXPECT_EQ(found(ids(0, 64)), 0);
  EXPECT_EQ(found({}), 0);
  auto other = tokens;
  other[70] = 999;
  EXPECT_EQ(found(other), 64);
  other[3] = 999;
  EXPECT_EQ(found(other), 0) << "page 2 is the same, what is before it isn't";
  EXPECT_EQ(pool(0).available_pages(), 8);
  EXPECT_EQ(pool(1).available_pages(), 6);
}

TEST_F(SequenceTest, TheLongestPrefixWhoseWindowIsStillThereIsFound) {
  const auto tokens = ids(0, 330);
  Sequence first(fake_.cache, true);
  append(first, tokens);
  first.clear();
  // Evicts page 4 of the window group, the first that was given back, and 3: 192 tokens see the pages 1 and 2.
  Sequence second(fake_.cache);
  append(second, ids(1000, 170));
  EXPECT_EQ(pool(1).evictions(), 2);
  EXPECT_EQ(found(tokens), 192);
  EXPECT_EQ(pool(0).evictions(), 0);
}

class FullSequenceTest : public SequenceTest {
 protected:
  FullSequenceTest() : SequenceTest({{0, 8}}) {}
};

TEST_F(FullSequenceTest, OfAnEvictedPrefixTheBeginningStays) {
  const auto tokens = ids(0, 330);
  {
    Sequence first(fake_.cache, true);
    append(first, tokens);
  }
  // 5 full pages are idle, 3 are free.
  Sequence second(fake_.cache);
  append(second, ids(1000, 257));
  EXPECT_EQ(pool(0).evictions(), 2);
  EXPECT_EQ(found(tokens), 192);
}

TEST_F(SequenceTest, AShiftedSequencePublishesNothingUntilItIsCleared) {
  Sequence sequence(fake_.cache, true);
  append(sequence, ids(0, 150));
  ASSERT_TRUE(sequence.remove(70, 10));
  EXPECT_EQ(found(ids(0, 150)), 64) << "the page before the cut is what it was";
  append(sequence, ids(150, 60));
  std::vector<int32_t> tokens(sequence.tokens().begin(), sequence.tokens().end());
  tokens.push_back(0);
  EXPECT_EQ(found(tokens), 64);
  sequence.clear();
  EXPECT_EQ(sequence.reuse_prefix(tokens), 64);
  append(sequence, std::vector<int32_t>(tokens.begin() + 64, tokens.end()));
  EXPECT_EQ(found(tokens), 192);
}

TEST_F(SequenceTest, AfterATruncationWhatIsWrittenIsPublishedUnderItsOwnKeys) {
  Sequence sequence(fake_.cache, true);
  append(sequence, ids(0, 200));
  sequence.truncate(100);
  EXPECT_EQ(found(ids(0, 200)), 192) << "page 1 is whole as long as nobody writes";
  append(sequence, ids(700, 99));
  EXPECT_EQ(found(ids(0, 200)), 64);
  std::vector<int32_t> tokens(sequence.tokens().begin(), sequence.tokens().end());
  EXPECT_EQ(found(tokens), 192);
  auto stale = ids(0, 192);
  stale.insert(stale.end(), tokens.begin() + 192, tokens.end());
  EXPECT_EQ(found(stale), 64);
}

TEST_F(SequenceTest, AForkSharesPagesUntilOneWrites) {
  Sequence first(fake_.cache, true);
  append(first, ids(0, 100));
  EXPECT_TRUE(first.reserve(100));
  Sequence second = first.fork();
  EXPECT_EQ(pool(0).available_pages(), 4) << "two pages shared, two reserved for the first alone";
  EXPECT_EQ(pool(0).references(first.pages(0)[0]), 2);
  EXPECT_EQ(pool(0).references(first.pages(0)[1]), 2);
  EXPECT_EQ(second.pages(0).size(), 2u);
  append(second, ids(300, 1));
  EXPECT_NE(first.pages(0)[1], second.pages(0)[1]);
  EXPECT_EQ(first.pages(0)[0], second.pages(0)[0]);
  EXPECT_EQ(fake_.store.at(0, second.pages(0)[1], 35).token, 99);
  EXPECT_EQ(fake_.store.at(0, second.pages(0)[1], 36).token, 300);
  append(first, ids(400, 1));
  EXPECT_EQ(fake_.store.at(0, second.pages(0)[1], 36).token, 300);
}

TEST_F(SequenceTest, AnAssignedSequenceGivesItsPagesBackAtOnce) {
  Sequence first(fake_.cache), second(fake_.cache);
  append(first, ids(0, 200));
  append(second, ids(0, 10));
  EXPECT_EQ(pool(0).available_pages(), 3);
  first = std::move(second);
  EXPECT_EQ(pool(0).available_pages(), 7);
  EXPECT_EQ(first.length(), 10);
}

TEST_F(SequenceTest, RefusesWhatAWindowHasGivenUp) {
  Sequence sequence(fake_.cache);
  append(sequence, ids(0, 300));
  append(sequence, ids(300, 1));
  EXPECT_EQ(sequence.first_token(1), 192) << "token 300 sees 201 and later";
  EXPECT_EQ(error_of([&] { sequence.truncate(290); }),
            "unsupported: can't go back to 290 of 301 tokens: layers with a window of 100 have given up what the next "
            "token would see");
  EXPECT_EQ(
      error_of([&] { sequence.remove(250, 20); }),
      "unsupported: can't remove tokens 250 to 269 of 301: layers with a window of 100 have given up those before "
      "192, which would become visible");
  EXPECT_EQ(sequence.length(), 301);
  sequence.truncate(291);
  EXPECT_TRUE(sequence.remove(5, 91)) << "out of the window";
  EXPECT_EQ(sequence.first_token(1), 101);
  EXPECT_EQ(error_of([&] { sequence.truncate(199); }).substr(0, 34), "unsupported: can't go back to 199 ");
}

TEST_F(SequenceTest, RefusesMoreThanTheContext) {
  Sequence sequence(fake_.cache);
  append(sequence, ids(0, 300));
  EXPECT_EQ(error_of([&] { sequence.reserve(101); }), "invalid_input: a sequence of 401 tokens; the context holds 400");
  EXPECT_THAT(error_of([&] { sequence.commit(ids(0, 30)); }),
              HasSubstr("tokens were committed that were not reserved"));
  EXPECT_EQ(sequence.length(), 300);
}

}  // namespace
}  // namespace minfer::engine
