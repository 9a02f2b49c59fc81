// What a request's first line and its Host name, checked: the target's path without percent escapes, and its query. The
// HTTP library lets nearly every byte through here; what is refused below could mean one thing to a proxy and another
// to us. Source: RFC 9112 section 3.2, RFC 3986. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace minfer::server {

struct Target {
  std::string path;   // begins with '/', or is "*"
  std::string query;  // as sent, without '?'
};

// An origin form ("/path?query"), an absolute form of http or https, or "*". Errors: invalid_input, for characters that
// have to be escaped, broken escapes, and escapes of control characters or of text that is not UTF-8.
Target parse_target(std::string_view target);

// A host name or address with or without a port. It may be empty.
bool is_valid_host(std::string_view host);

}  // namespace minfer::server
