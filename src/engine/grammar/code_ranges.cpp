// Sets of code points: sorting and merging, all in one pass over the sorted ranges.
#include "engine/grammar/code_ranges.hpp"

#include <algorithm>

namespace minfer::engine::grammar {
namespace {

constexpr uint32_t kFirstSurrogate = 0xD800;
constexpr uint32_t kLastSurrogate = 0xDFFF;

std::vector<CodeRange> without_surrogates(const std::vector<CodeRange>& ranges) {
  std::vector<CodeRange> out;
  for (const CodeRange range : ranges) {
    if (range.first < kFirstSurrogate) {
      out.push_back({range.first, std::min(range.last, kFirstSurrogate - 1)});
    }
    if (range.last > kLastSurrogate) {
      out.push_back({std::max(range.first, kLastSurrogate + 1), range.last});
    }
  }
  return out;
}

}  // namespace

std::vector<CodeRange> normalized(std::vector<CodeRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](CodeRange a, CodeRange b) { return a.first < b.first; });
  std::vector<CodeRange> out;
  for (const CodeRange range : ranges) {
    if (!out.empty() && range.first <= out.back().last + 1) {
      out.back().last = std::max(out.back().last, range.last);
    } else {
      out.push_back(range);
    }
  }
  return without_surrogates(out);
}

std::vector<CodeRange> inverted(const std::vector<CodeRange>& ranges) {
  std::vector<CodeRange> out;
  uint32_t next = 0;
  for (const CodeRange range : ranges) {
    if (range.first > next) {
      out.push_back({next, range.first - 1});
    }
    next = range.last + 1;
  }
  if (next <= kMaxCodePoint) {
    out.push_back({next, kMaxCodePoint});
  }
  return without_surrogates(out);
}

std::vector<CodeRange> intersection(const std::vector<CodeRange>& left, const std::vector<CodeRange>& right) {
  std::vector<CodeRange> out;
  size_t r = 0;
  for (const CodeRange range : left) {
    while (r < right.size() && right[r].last < range.first) {
      ++r;
    }
    for (size_t i = r; i < right.size() && right[i].first <= range.last; ++i) {
      out.push_back({std::max(range.first, right[i].first), std::min(range.last, right[i].last)});
    }
  }
  return out;
}

bool contains(const std::vector<CodeRange>& ranges, uint32_t code) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), code,
                                      [](uint32_t value, CodeRange range) { return value < range.first; });
  return after != ranges.begin() && code <= std::prev(after)->last;
}

}  // namespace minfer::engine::grammar
