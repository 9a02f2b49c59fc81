// The pool of one group's pages: order of giving, references, what is published and found, what is evicted first, and
// wrong use, which is an internal error. No sequences here: see sequence_test.cpp.
#include "engine/kv/page_pool.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"
#include "base/test_support.hpp"

namespace minfer::engine {
namespace {

using ::testing::HasSubstr;

// Takes a page and publishes it under {low, 0}.
int32_t take_published(PagePool& pool, uint64_t low) {
  const int32_t page = pool.take();
  pool.publish(page, {low, 0});
  return page;
}

TEST(PagePool, GivesTheLowestFreePage) {
  PagePool pool(3);
  EXPECT_EQ(pool.pages(), 3);
  EXPECT_EQ(pool.available_pages(), 3);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.take(), 1);
  EXPECT_EQ(pool.take(), 2);
  EXPECT_EQ(pool.available_pages(), 0);
  pool.release(1);
  pool.release(0);
  EXPECT_EQ(pool.available_pages(), 2);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.take(), 1);
}

TEST(PagePool, WrongUseIsTheCallersFault) {
  PagePool empty(0);
  EXPECT_THAT(error_of([&] { empty.take(); }),
              HasSubstr("internal: internal error: a page was taken from an empty pool"));
  EXPECT_EQ(empty.find({1, 2}), kNoPage);
  PagePool pool(1);
  EXPECT_THAT(error_of([&] { pool.hold(0); }), HasSubstr("internal: internal error: a free page was held"));
  EXPECT_THAT(error_of([&] { pool.release(0); }),
              HasSubstr("internal: internal error: a page was released that nobody holds"));
  EXPECT_THAT(error_of([&] { pool.publish(0, {1, 2}); }),
              HasSubstr("internal: internal error: only a held page is published"));
  take_published(pool, 1);
  EXPECT_THAT(error_of([&] { pool.publish(0, {1, 2}); }),
              HasSubstr("internal: internal error: only a held page is published"));
  EXPECT_THAT(error_of([&] { pool.take(); }),
              HasSubstr("internal: internal error: a page was taken from an empty pool"));
}

TEST(PagePool, APageIsFreeWhenItsLastHolderGivesItBack) {
  PagePool pool(1);
  const int32_t page = pool.take();
  pool.hold(page);
  EXPECT_EQ(pool.references(page), 2);
  pool.release(page);
  EXPECT_EQ(pool.references(page), 1);
  EXPECT_EQ(pool.available_pages(), 0);
  pool.release(page);
  EXPECT_EQ(pool.references(page), 0);
  EXPECT_EQ(pool.available_pages(), 1);
}

TEST(PagePool, APublishedPageIsFoundHeldAndIdle) {
  PagePool pool(2);
  const int32_t page = take_published(pool, 7);
  EXPECT_EQ(pool.find({7, 0}), page);
  EXPECT_EQ(pool.find({7, 1}), kNoPage) << "both halves of the key count";
  pool.release(page);
  EXPECT_EQ(pool.idle_pages(), 1);
  EXPECT_EQ(pool.available_pages(), 2);
  EXPECT_EQ(pool.find({7, 0}), page);
  pool.hold(page);
  EXPECT_EQ(pool.idle_pages(), 0);
  EXPECT_EQ(pool.references(page), 1);
  EXPECT_EQ(pool.available_pages(), 1);
  pool.unpublish(page);
  EXPECT_EQ(pool.find({7, 0}), kNoPage);
  pool.unpublish(page);
  pool.release(page);
  EXPECT_EQ(pool.idle_pages(), 0) << "an unpublished page is free";
  EXPECT_EQ(pool.available_pages(), 2);
}

TEST(PagePool, AnIdlePageThatIsUnpublishedIsFree) {
  PagePool pool(3);
  for (uint64_t key = 0; key < 3; ++key) take_published(pool, key);
  for (int32_t page = 0; page < 3; ++page) pool.release(page);
  pool.unpublish(1);
  EXPECT_EQ(pool.idle_pages(), 2);
  EXPECT_EQ(pool.available_pages(), 3);
  EXPECT_EQ(pool.take(), 1);
  EXPECT_EQ(pool.evictions(), 0);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.take(), 2);
  EXPECT_EQ(pool.evictions(), 2);
}

TEST(PagePool, EvictsTheLeastRecentlyReleasedAndOnlyWhenNoneIsFree) {
  PagePool pool(4);
  for (uint64_t key = 0; key < 4; ++key) take_published(pool, key);
  for (const int32_t page : {2, 0, 3}) pool.release(page);
  // Used again, so 2 is the youngest now; 1 comes last.
  pool.hold(2);
  pool.release(2);
  pool.unpublish(1);
  pool.release(1);
  EXPECT_EQ(pool.take(), 1) << "the free one";
  EXPECT_EQ(pool.evictions(), 0);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.find({0, 0}), kNoPage);
  EXPECT_EQ(pool.find({3, 0}), 3);
  EXPECT_EQ(pool.take(), 3);
  EXPECT_EQ(pool.take(), 2);
  EXPECT_EQ(pool.evictions(), 3);
  EXPECT_EQ(pool.available_pages(), 0);
}

TEST(PagePool, ASecondPageOfAKeyIsNotPublished) {
  PagePool pool(2);
  const int32_t first = take_published(pool, 5);
  const int32_t second = take_published(pool, 5);
  EXPECT_EQ(pool.find({5, 0}), first);
  pool.release(second);
  EXPECT_EQ(pool.idle_pages(), 0);
  pool.release(first);
  EXPECT_EQ(pool.idle_pages(), 1);
  EXPECT_EQ(pool.find({5, 0}), first);
}

TEST(PagePool, KeysThatShareABucketAreApart) {
  constexpr uint64_t kPages = 5;
  PagePool pool(kPages);
  // Equal modulo the number of pages.
  for (uint64_t i = 0; i < kPages; ++i) take_published(pool, 3 + i * kPages);
  for (const int32_t gone : {2, 4, 0}) {
    pool.unpublish(gone);
    EXPECT_EQ(pool.find({3 + static_cast<uint64_t>(gone) * kPages, 0}), kNoPage);
    EXPECT_EQ(pool.find({3 + 1 * kPages, 0}), 1);
    EXPECT_EQ(pool.find({3 + 3 * kPages, 0}), 3);
  }
}

}  // namespace
}  // namespace minfer::engine
