// A stable sort whose comparison may throw or contradict itself (values may not be comparable, nan is in no order): it
// always ends, touches no element outside, and leaves the vector valid. The standard sorts promise neither.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

namespace minfer::chat::jinja {

template <class T, class Less>
void merge_sort(std::vector<T>& items, const Less& less) {
  std::vector<T> merged(items.size());
  for (size_t width = 1; width < items.size(); width *= 2) {
    for (size_t begin = 0; begin < items.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, items.size());
      const size_t end = std::min(begin + 2 * width, items.size());
      size_t left = begin;
      size_t right = middle;
      for (size_t out = begin; out < end; ++out) {
        const bool take_right = left == middle || (right < end && less(items[right], items[left]));
        merged[out] = std::move(items[take_right ? right++ : left++]);
      }
    }
    items.swap(merged);
  }
}

}  // namespace minfer::chat::jinja
