// Finding a header. See exchange.hpp.
// Requests have few headers: a scan is the fastest way.
#include "server/http/exchange.hpp"

namespace minfer::server {

std::optional<std::string_view> HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return std::nullopt;
}

}  // namespace minfer::server
