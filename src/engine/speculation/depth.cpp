// Costs of steps, and the choice of the depth. See depth.hpp.
#include "engine/speculation/depth.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"

namespace minfer::engine {
namespace {

// What a row adds to a step of one row, before it is measured.
constexpr double kUnknownRowShare = 0.25;
// What a row adds beyond the sizes that were measured, at least, in shares of what a row of the largest of those took
// in the mean: the first rows may be hidden behind the reading of the weights, and the next ones are not.
constexpr double kLeastRowShare = 0.25;
constexpr double kSmoothing = 0.25;   // the weight of a new sample
constexpr double kMostChange = 0.5;   // a sample counts as at most so far off, relative: the system may have stalled it
constexpr int64_t kForgotten = 1024;  // records after which a size that didn't occur is unknown again

constexpr double kLearning = 0.125;  // the weight of one drafted token in the acceptance
constexpr int64_t kProbeDepth = 2;
constexpr int64_t kShortestPause = 4;
constexpr int64_t kLongestPause = 32;

// What reading a token takes, in shares of a step of one row, before it is measured.
constexpr double kUnknownReadShare = 0.125;
// Tokens behind that a draft runs by itself: the one that was drawn where the whole of the last draft stood.
constexpr int64_t kUsualLag = 1;
// A draft model that has read less than this guesses too badly to be worth it.
constexpr int64_t kLeastRead = 6;
// Drafts of one token that reading leaves the credit for.
constexpr double kDraftsToTry = 2;

// Tokens that a step would have given in the time that drafting adds to it.
double tokens_at_stake(const StepCost& cost, int64_t other_rows, int64_t drafted) {
  const double plain = cost.seconds(other_rows + 1);
  return static_cast<double>(other_rows + 1) * (cost.seconds(other_rows + 1 + drafted) / plain - 1);
}

// Tokens that steps would have given in the time that reading so many takes.
double tokens_read(const StepCost& cost, int64_t other_rows, int64_t tokens) {
  return static_cast<double>(other_rows + 1) * cost.catch_up_seconds(tokens) / cost.seconds(other_rows + 1);
}

}  // namespace

size_t StepCost::size_index(int64_t rows) {
  const auto found = std::lower_bound(kSizes.begin(), kSizes.end() - 1, rows);
  return static_cast<size_t>(found - kSizes.begin());
}

bool StepCost::is_known(size_t index) const {
  return measured_[index].samples > 1 && records_ - measured_[index].last < kForgotten;
}

void StepCost::record(int64_t rows, double seconds) {
  const size_t index = size_index(rows);
  // As if it had been of that size.
  const double sample = seconds * this->seconds(kSizes[index]) / this->seconds(rows);
  Measured& mine = measured_[index];
  const bool known = is_known(index);
  mine.last = ++records_;
  if (++mine.samples == 1) return;
  if (!known) mine.seconds = sample;
  const double most = kMostChange * mine.seconds;
  mine.seconds += kSmoothing * std::clamp(sample - mine.seconds, -most, most);
  fill();
}

void StepCost::fill() {
  known_sizes_ = 0;
  std::optional<size_t> first, last;
  for (size_t i = 0; i < kSizes.size(); ++i) {
    if (!is_known(i)) continue;
    if (!first) first = i;
    last = i;
    ++known_sizes_;
  }
  const auto rows = [](size_t i) { return static_cast<double>(kSizes[i]); };
  const auto known = [&](size_t i) { return measured_[i].seconds; };
  const double first_share = 1 + kUnknownRowShare * (rows(*first) - 1);
  const double slope = *first == *last ? known(*first) / first_share * kUnknownRowShare
                                       : std::max(0.0, (known(*last) - known(*first)) / (rows(*last) - rows(*first)));
  const double beyond = known_sizes_ == 1 ? slope : std::max(slope, kLeastRowShare * known(*last) / rows(*last));
  size_t below = *first;
  for (size_t i = 0; i < kSizes.size(); ++i) {
    if (is_known(i)) {
      line_[below = i] = known(i);
    } else if (i < *first) {
      // Fewer rows save at most their share.
      line_[i] = std::max(known(*first) - slope * (rows(*first) - rows(i)), known(*first) * rows(i) / rows(*first));
    } else if (i > *last) {
      line_[i] = known(*last) + beyond * (rows(i) - rows(*last));
    } else {
      size_t above = i;
      while (!is_known(above)) ++above;
      line_[i] = known(below) + (known(above) - known(below)) * (rows(i) - rows(below)) / (rows(above) - rows(below));
    }
  }
}

double StepCost::seconds(int64_t rows) const {
  if (known_sizes_ == 0) return 1 + kUnknownRowShare * static_cast<double>(rows - 1);
  const size_t above = std::max<size_t>(size_index(rows), 1);
  const double share =
      static_cast<double>(rows - kSizes[above - 1]) / static_cast<double>(kSizes[above] - kSizes[above - 1]);
  return line_[above - 1] + (line_[above] - line_[above - 1]) * share;
}

void StepCost::record_catch_up(int64_t tokens, double seconds) {
  const double sample = seconds / static_cast<double>(tokens);
  if (catch_up_seconds_ == 0) catch_up_seconds_ = sample;
  const double most = kMostChange * catch_up_seconds_;
  catch_up_seconds_ += kSmoothing * std::clamp(sample - catch_up_seconds_, -most, most);
}

double StepCost::catch_up_seconds(int64_t tokens) const {
  const double one = catch_up_seconds_ > 0 ? catch_up_seconds_ : kUnknownReadShare * seconds(1);
  return one * static_cast<double>(tokens);
}

DepthPolicy::DepthPolicy(int64_t depth, bool adapts) : depth_(depth), adapts_(adapts), pause_(kShortestPause) {
  if (depth < 1 || depth > kMaxDepth) {
    fail(ErrorCode::invalid_input, "{} tokens to draft; expected 1 to {}", depth, kMaxDepth);
  }
}

int64_t DepthPolicy::next(const StepCost& cost, int64_t other_rows) const {
  if (!adapts_) return depth_;
  if (!cost.knows(other_rows + 1)) return 0;
  double tokens = static_cast<double>(other_rows + 1);
  double best_rate = tokens / cost.seconds(other_rows + 1);
  double reached = 1;
  int64_t best = 0, affordable = 0;
  const int64_t most = cost.knows_slope() ? depth_ : 1;
  for (int64_t depth = 1; depth <= most; ++depth) {
    if (tokens_at_stake(cost, other_rows, depth) > credit_) break;
    affordable = depth;
    reached *= acceptance_;
    tokens += reached;
    const double rate = tokens / cost.seconds(other_rows + 1 + depth);
    if (rate > best_rate) best_rate = rate, best = depth;
  }
  return best == 0 && idle_ >= pause_ ? std::min(kProbeDepth, affordable) : best;
}

std::optional<int64_t> DepthPolicy::tokens_to_read(const StepCost& cost, int64_t other_rows, const Lag& lag) const {
  if (!adapts_ || (lag.behind <= kUsualLag && lag.left_out == 0)) return 0;
  const double left = credit_ - kDraftsToTry * tokens_at_stake(cost, other_rows, 1);
  const int64_t affordable = std::max<int64_t>(0, static_cast<int64_t>(left / tokens_read(cost, other_rows, 1)));
  const int64_t known = lag.held + lag.behind;
  const int64_t all = lag.left_out + known;
  // Twice as much of the text as before.
  if (lag.left_out > 0 && affordable >= std::min(all, 2 * known)) return std::min(all, 2 * known);
  if (lag.behind <= kUsualLag) return 0;
  if (affordable >= lag.behind) return lag.behind;
  return affordable >= kLeastRead ? std::optional(affordable) : std::nullopt;
}

void DepthPolicy::pay_reading(const StepCost& cost, int64_t other_rows, int64_t tokens) {
  credit_ -= tokens_read(cost, other_rows, tokens);
}

void DepthPolicy::record(const StepCost& cost, int64_t other_rows, int64_t drafted, int64_t accepted) {
  credit_ += kLossShare * static_cast<double>(1 + accepted);
  if (drafted == 0) {
    ++idle_;
  } else {
    idle_ = 0;
    pause_ = accepted > 0 ? kShortestPause : std::min(2 * pause_, kLongestPause);
    credit_ -= tokens_at_stake(cost, other_rows, drafted) - static_cast<double>(accepted);
    for (int64_t i = 0; i < accepted; ++i) acceptance_ += kLearning * (1 - acceptance_);
    if (accepted < drafted) acceptance_ -= kLearning * acceptance_;
  }
  credit_ = std::min(credit_, kMostCredit);
}

}  // namespace minfer::engine
