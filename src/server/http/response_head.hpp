// The first lines of an answer, as HTTP/1.1 writes them. Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/exchange.hpp"

namespace minfer::server {

struct ResponseHead {
  int status = 200;
  std::string_view content_type;              // empty: no such header
  std::optional<size_t> content_length = {};  // of the body; none: it comes in chunks, or until the end
  bool chunked = false;
  bool keeps_alive = true;
};

// With Date, Server and the two lists of headers, whose texts have no line ends in them. One of `headers` takes the
// place of the same one of `common`.
std::string format_head(const ResponseHead& head, const Headers& headers, const Headers& common);

}  // namespace minfer::server
