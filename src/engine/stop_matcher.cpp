// Stop strings in a stream. See stop_matcher.hpp.
#include "engine/stop_matcher.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.hpp"

namespace minfer::engine {
namespace {

// The longest end of `text` that begins `stop` without being all of it.
size_t partial_match(std::string_view text, std::string_view stop) {
  for (size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (text.substr(text.size() - length) == stop.substr(0, length)) return length;
  }
  return 0;
}

struct Match {
  size_t begin;
  size_t end;
};

// The stop string in `text` that is complete first, the longest of those that end together.
std::optional<Match> first_complete(std::string_view text, const std::vector<std::string>& stops) {
  std::optional<Match> best;
  for (const std::string& stop : stops) {
    const size_t begin = text.find(stop);
    if (begin == std::string_view::npos) continue;
    const Match match{begin, begin + stop.size()};
    if (!best || std::pair(match.end, match.begin) < std::pair(best->end, best->begin)) best = match;
  }
  return best;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  if (stops_.size() > kMaxStops) {
    fail(ErrorCode::invalid_input, "{} stop strings; expected at most {}", stops_.size(), kMaxStops);
  }
  for (const std::string& stop : stops_) {
    if (stop.empty()) fail(ErrorCode::invalid_input, "a stop string is empty; expected at least one character");
    if (stop.size() > kMaxStopBytes) {
      fail(ErrorCode::invalid_input, "a stop string has {} bytes; the limit is {}", stop.size(), kMaxStopBytes);
    }
  }
}

// Hands the first `size` bytes of what is pending out.
std::string_view StopMatcher::show(size_t size) {
  shown_.assign(pending_, 0, size);
  pending_.erase(0, size);
  return shown_;
}

std::string_view StopMatcher::push(std::string_view text) {
  if (stopped_) return {};
  pending_ += text;
  // What is pending goes back to the earliest beginning of a stop that isn't complete yet, so any that is complete now
  // lies in it as a whole.
  if (const auto match = first_complete(pending_, stops_)) {
    stopped_ = true;
    pending_.resize(match->begin);
    return show(match->begin);
  }
  size_t held = 0;
  for (const std::string& stop : stops_) held = std::max(held, partial_match(pending_, stop));
  return show(pending_.size() - held);
}

std::string_view StopMatcher::finish() {
  return show(pending_.size());
}

}  // namespace minfer::engine
