// Checks of pages and moves against a cache's spec, for every device's store and steps. See kv.hpp.
#include "graph/kv.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace minfer::graph {

void check_page(const KvSpec& spec, int32_t group, int32_t page) {
  check(group >= 0 && static_cast<size_t>(group) < spec.groups.size(), "a KV page of a group that is not there");
  check(page >= 0 && page < spec.groups[static_cast<size_t>(group)].pages, "a KV page that is not there");
}

void check_move(const KvSpec& spec, const KvMove& move) {
  check_page(spec, move.group, move.from_page);
  check_page(spec, move.group, move.to_page);
  const auto fits = [&](int32_t token) { return token >= 0 && token + move.tokens <= kPageTokens; };
  check(move.tokens >= 1 && move.tokens <= kPageTokens && fits(move.from_token) && fits(move.to_token),
        "a KV move leaves its page");
  check(move.from_page != move.to_page || move.to_token <= move.from_token, "a KV move goes up in its page");
}

void check_pages(const KvSpec& spec, size_t group, int64_t first_position, int64_t rows,
                 std::span<const int32_t> pages) {
  const KvGroup& own = spec.groups[group];
  const int64_t end = first_position + rows;
  const int64_t first = own.window == 0 ? 0 : std::max<int64_t>(0, first_position - own.window + 1);
  const int64_t end_page = (end + kPageTokens - 1) / kPageTokens;
  if (end_page > static_cast<int64_t>(pages.size())) {
    fail(ErrorCode::internal, "internal error: a sequence of {} tokens has {} pages in KV group {}", end, pages.size(),
         group);
  }
  for (int64_t at = first / kPageTokens; at < end_page && !own.layers.empty(); ++at) {
    const int32_t page = pages[static_cast<size_t>(at)];
    if (page < 0 || page >= own.pages) {
      fail(ErrorCode::internal, "internal error: page {} of a sequence is {}; KV group {} has {} pages", at, page,
           group, own.pages);
    }
  }
}

}  // namespace minfer::graph
