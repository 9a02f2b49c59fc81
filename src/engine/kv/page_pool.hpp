// The pages of one KV group: how many sequences hold each, which are free, and which hold a prefix that a later
// sequence may find again. Page ids are 0 .. pages - 1. A page that nobody holds is free, or, if it was published,
// idle: it keeps its tokens until it is needed, the least recently released first. The lowest free id is given first,
// so that runs repeat. Nothing is allocated after construction. The engine's thread makes all calls.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace minfer::engine {

// Names the tokens of a full page and of all before it: a hash that is chained from page to page.
struct PageKey {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const PageKey&) const = default;
};

inline constexpr int32_t kNoPage = -1;

class PagePool {
 public:
  explicit PagePool(int64_t pages);

  int64_t pages() const { return static_cast<int64_t>(pages_.size()); }
  // Pages that take() can give.
  int64_t available_pages() const { return static_cast<int64_t>(free_.size()) + idle_pages_; }
  int64_t idle_pages() const { return idle_pages_; }
  int64_t evictions() const { return evictions_; }

  // A page with one reference; there is one (checked: internal). Evicts an idle one where none is free.
  int32_t take();
  void hold(int32_t page);
  void release(int32_t page);
  int32_t references(int32_t page) const { return at(page).references; }

  // Lets find() give a held page, which is full, until it is written to or evicted. No effect where another page has
  // the key already.
  void publish(int32_t page, const PageKey& key);
  void unpublish(int32_t page);
  // The page published under a key, held or idle, or kNoPage.
  int32_t find(const PageKey& key) const;

 private:
  struct Page {
    int32_t references = 0;
    bool published = false;
    PageKey key;
    int32_t next_in_bucket = kNoPage;
    // Neighbours among the idle pages.
    int32_t newer = kNoPage;
    int32_t older = kNoPage;
  };

  Page& at(int32_t page) { return pages_[static_cast<size_t>(page)]; }
  const Page& at(int32_t page) const { return pages_[static_cast<size_t>(page)]; }
  int32_t& bucket(const PageKey& key) { return buckets_[key.low % buckets_.size()]; }
  void push_free(int32_t page);
  void push_idle(int32_t page);
  void unlink_idle(int32_t page);

  std::vector<Page> pages_;
  std::vector<int32_t> free_;     // a heap, the lowest id on top
  std::vector<int32_t> buckets_;  // of published pages by key
  int32_t oldest_ = kNoPage;
  int32_t newest_ = kNoPage;
  int64_t idle_pages_ = 0;
  int64_t evictions_ = 0;
};

}  // namespace minfer::engine
