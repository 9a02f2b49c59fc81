// The free list. See page_pool.hpp.
#include "engine/page_pool.hpp"

#include "base/error.hpp"

namespace minfer::engine {

PagePool::PagePool(int64_t pages) {
  for (int64_t page = 0; page < pages; ++page) free_.push(static_cast<int32_t>(page));
}

int32_t PagePool::take() {
  check(!free_.empty(), "a page was taken from an empty pool");
  const int32_t page = free_.top();
  free_.pop();
  return page;
}

}  // namespace minfer::engine
