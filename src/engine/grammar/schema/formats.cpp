// The table of formats: each a regular expression, strict enough for every validator. Sources: RFC 3339 (dates, with
// days by month and leap years; a fraction of a second has at most 9 digits, no leap seconds), RFC 4122 (uuid), RFC
// 5321 (email: a dot-atom and a domain of letters, digits and hyphens), RFC 2673 (ipv4 without leading zeros), RFC 3986
// (uri, without addresses in brackets). Oracle: the format checker of Python's jsonschema.
#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "engine/grammar/schema/strings.hpp"

namespace minfer::engine::grammar::schema {
namespace {

struct Format {
  std::string_view name;
  std::string regex;
};

std::array<Format, 7> formats() {
  const std::string date =
      "((000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-"
      "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|"
      "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)-02-29)";
  const std::string time =
      "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
  const std::string byte = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  const std::string label = "[A-Za-z0-9]+(-+[A-Za-z0-9]+)*";
  const std::string escape = "%[0-9A-Fa-f]{2}";
  const std::string segment_char = "([A-Za-z0-9._~!$&'()*+,;=:@-]|" + escape + ")";
  const std::string host_char = "([A-Za-z0-9._~!$&'()*+,;=-]|" + escape + ")";
  const std::string user_char = "([A-Za-z0-9._~!$&'()*+,;=:-]|" + escape + ")";
  const std::string query = "([A-Za-z0-9._~!$&'()*+,;=:@/?-]|" + escape + ")*";
  return {{
      {"date-time", date + "T" + time},
      {"date", date},
      {"time", time},
      {"uuid", "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
      {"email", atom + "(\\." + atom + ")*@" + label + "(\\." + label + ")*"},
      {"ipv4", "(" + byte + "\\.){3}" + byte},
      {"uri", "[A-Za-z][A-Za-z0-9+.-]*:(//(" + user_char + "*@)?" + host_char + "+(:[0-9]*)?(/" + segment_char +
                  "*)*|" + segment_char + "+(/" + segment_char + "*)*)(\\?" + query + ")?(#" + query + ")?"},
  }};
}

}  // namespace

RegexId format_regex(RegexPool& pool, std::string_view format, std::string_view where) {
  for (const Format& one : formats()) {
    if (one.name == format) {
      return parse_pattern(pool, "^(" + one.regex + ")$", false, where);
    }
  }
  fail(ErrorCode::unsupported,
       "JSON schema: {}: the format '{}' is not supported (date-time, date, time, uuid, email, ipv4 and uri are); give "
       "a pattern instead",
       where, format);
}

}  // namespace minfer::engine::grammar::schema
