// The sharing of a step's rows. See schedule.hpp.
#include "engine/schedule.hpp"

#include <algorithm>

namespace minfer::engine {

void share_rows(std::span<const int64_t> pending, int64_t budget, std::span<int64_t> rows) {
  std::fill(rows.begin(), rows.end(), 0);
  const auto give = [&](size_t i, int64_t most) {
    const int64_t given = std::min({most, pending[i] - rows[i], budget});
    rows[i] += given;
    budget -= given;
  };
  for (size_t i = 0; i < pending.size(); ++i) {
    if (pending[i] == 1) give(i, 1);
  }
  for (size_t i = 0; i < pending.size(); ++i) {
    if (pending[i] > 1) give(i, kFairRows);
  }
  for (size_t i = 0; i < pending.size(); ++i) give(i, pending[i]);
}

void share_texts(std::span<const int64_t> pending, int64_t budget, std::span<int64_t> rows) {
  for (size_t i = 0; i < pending.size(); ++i) {
    rows[i] = pending[i] <= budget ? pending[i] : 0;
    budget -= rows[i];
  }
}

}  // namespace minfer::engine
