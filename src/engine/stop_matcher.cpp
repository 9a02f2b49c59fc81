// Stop strings in a stream. See stop_matcher.hpp.
#include "engine/stop_matcher.hpp"

#include <algorithm>
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

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  if (stops_.size() > kMaxStops) {
    fail(ErrorCode::invalid_input, "{} stop strings; expected at most {}", stops_.size(), kMaxStops);
  }
  for (const std::string& stop : stops_) {
    if (stop.empty()) fail(ErrorCode::invalid_input, "a stop string is empty; expected at least one character");
  }
}

std::string StopMatcher::push(std::string_view text) {
  if (stopped_) return {};
  pending_ += text;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, pending_.find(stop));
  if (first != std::string::npos) {
    stopped_ = true;
    pending_.resize(first);
    return std::exchange(pending_, {});
  }
  size_t held = 0;
  for (const std::string& stop : stops_) held = std::max(held, partial_match(pending_, stop));
  std::string shown = pending_.substr(0, pending_.size() - held);
  pending_.erase(0, shown.size());
  return shown;
}

std::string StopMatcher::finish() {
  return std::exchange(pending_, {});
}

}  // namespace minfer::engine
