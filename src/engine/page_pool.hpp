// Which pages of a KvStore are free. Page ids are 0 .. pages - 1; the lowest free id is given first, so that runs
// repeat. The engine's thread makes all calls.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace minfer::engine {

class PagePool {
 public:
  explicit PagePool(int64_t pages);

  int64_t free_pages() const { return static_cast<int64_t>(free_.size()); }
  // A free page; there is one (checked: internal).
  int32_t take();
  void give_back(int32_t page) { free_.push(page); }

 private:
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> free_;
};

}  // namespace minfer::engine
