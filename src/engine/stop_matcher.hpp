// Finds stop strings in streamed text. Text that could be the beginning of a stop string is held back until it is known
// not to be, so that no part of the stop string that ends the stream is ever shown. One stream, one thread. Limits:
// kMaxStops strings of kMaxStopBytes.
//
// Which stop string counts depends on the text alone, not on how it is cut into pieces: the one that is complete first
// (the smallest end in the stream); of several that end together the longest. With the stops "bcd" and "c" the text
// "abcd" shows "ab": "c" is complete before "bcd" is.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace minfer::engine {

class StopMatcher {
 public:
  static constexpr size_t kMaxStops = 64;
  static constexpr size_t kMaxStopBytes = 4096;  // of one

  // Errors: invalid_input for an empty stop string, one of more than kMaxStopBytes, or more than kMaxStops.
  explicit StopMatcher(std::vector<std::string> stops);

  // The text that may be shown after `text` arrived, valid until the next call. stopped() tells whether a stop string
  // was met; what follows it is dropped. Allocates nothing once the buffers have the size of a piece.
  std::string_view push(std::string_view text);
  // The text held back, at the end of the stream. Likewise.
  std::string_view finish();
  bool stopped() const { return stopped_; }

 private:
  std::string_view show(size_t size);

  std::vector<std::string> stops_;
  std::string pending_;
  std::string shown_;
  bool stopped_ = false;
};

}  // namespace minfer::engine
