// Methods of str. Results of methods on text marked safe keep the mark, as Markup's do. Oracle: CPython 3.11.
// Left out: encode, maketrans, translate.
#include <unicode/uchar.h>

#include <algorithm>

#include "chat/jinja/arguments.hpp"
#include "chat/jinja/methods.hpp"
#include "chat/jinja/present.hpp"
#include "chat/jinja/text.hpp"

namespace minfer::chat::jinja {
namespace {

using In = Interpreter;
using Args = Arguments;

Value same_kind(In& in, const Value& self, std::string text) {
  return in.make_string(std::move(text), self.is_markup());
}

template <std::string (*kFunction)(std::string_view)>
Value mapped(In& in, const Value& self, const Args& args) {
  expect_none(args);
  in.reserve_text(self.as_string().size());
  return same_kind(in, self, kFunction(self.as_string()));
}

template <Side kSide>
Value stripped(In& in, const Value& self, const Args& arguments) {
  const auto args = bind(arguments, 0, "chars");
  std::optional<std::string_view> chars;
  if (args.given(0)) chars = args.text(0, "");
  in.reserve_text(self.as_string().size() * (1 + (chars ? chars->size() / 64 : 0)));
  return same_kind(in, self, std::string(strip(self.as_string(), chars, kSide)));
}

Value parts_of(In& in, const Value& self, const std::vector<std::string_view>& parts) {
  in.reserve_items(parts.size());
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) items.push_back(same_kind(in, self, std::string(part)));
  return in.make_list(std::move(items));
}

template <bool kRight>
Value splitted(In& in, const Value& self, const Args& arguments) {
  const auto args = bind(arguments, 0, "sep", "maxsplit");
  std::optional<std::string_view> separator;
  if (args.given(0)) separator = args.text(0, "");
  if (separator && separator->empty()) raise("empty separator");
  const int64_t limit = args.integer(1, -1);
  in.reserve_text(self.as_string().size());
  return parts_of(in, self,
                  kRight ? split_right(self.as_string(), separator, limit) : split(self.as_string(), separator, limit));
}

Value splitlines(In& in, const Value& self, const Args& arguments) {
  const auto args = bind(arguments, 0, "keepends");
  in.reserve_text(self.as_string().size());
  return parts_of(in, self, split_lines(self.as_string(), args.flag(0)));
}

template <bool kRight>
Value partition(In& in, const Value& self, const Args& arguments) {
  const auto args = bind(arguments, 1, "sep");
  const std::string_view separator = args.text(0, "");
  if (separator.empty()) raise("empty separator");
  const std::string_view text = self.as_string();
  const size_t found = kRight ? text.rfind(separator) : text.find(separator);
  const auto part = [&](std::string_view piece) { return same_kind(in, self, std::string(piece)); };
  if (found == std::string_view::npos) {
    return kRight ? in.make_tuple({part(""), part(""), part(text)}) : in.make_tuple({part(text), part(""), part("")});
  }
  return in.make_tuple({part(text.substr(0, found)), part(separator), part(text.substr(found + separator.size()))});
}

// text[start:stop] of the arguments that find, count, startswith ... share; `begin` is its byte offset. False: out of
// range.
struct Window {
  std::string_view text;
  size_t first_index = 0;  // in code points
  bool valid = true;
};

template <size_t kCount>
Window window(In& in, const Value& self, const Bound<kCount>& args) {
  std::string_view text = self.as_string();
  in.step(text.size() / 64);
  const bool has_start = args.given(1);
  const bool has_stop = args.given(2);
  if (!has_start && !has_stop) return {text, 0, true};
  const auto size = static_cast<int64_t>(count_code_points(text));
  const auto clip = [&](int64_t bound) {
    return bound < 0 ? std::max<int64_t>(bound < -size ? 0 : bound + size, 0) : bound;
  };
  const int64_t start = has_start ? clip(args.integer(1, 0)) : 0;
  const int64_t stop = std::min(has_stop ? clip(args.integer(2, size)) : size, size);
  if (start > size || start > stop) return {"", 0, false};
  const size_t begin = byte_offset(text, static_cast<size_t>(start));
  const size_t end = byte_offset(text, static_cast<size_t>(stop));
  return {text.substr(begin, end - begin), static_cast<size_t>(start), true};
}

template <bool kEnd>
Value affixed(In& in, const Value& self, const Args& arguments) {
  const auto args = bind(arguments, 1, "prefix", "start", "end");
  const Window part = window(in, self, args);
  const auto matches = [&](const Value& affix) {
    if (!affix.is_string()) {
      raise("{} first arg must be str or a tuple of str, not {}", kEnd ? "endswith" : "startswith", type_name(affix));
    }
    const std::string_view text = affix.as_string();
    return part.valid && (kEnd ? part.text.ends_with(text) : part.text.starts_with(text));
  };
  if (!args[0].is(Kind::tuple)) return Value::boolean(matches(args[0]));
  in.step(args[0].items().size());
  return Value::boolean(std::any_of(args[0].items().begin(), args[0].items().end(), matches));
}

int64_t find_in(In& in, const Value& self, const Args& arguments, bool right) {
  const auto args = bind(arguments, 1, "sub", "start", "end");
  const std::string_view wanted = args.text(0, "");
  const Window part = window(in, self, args);
  if (!part.valid) return -1;
  const size_t found = right ? part.text.rfind(wanted) : part.text.find(wanted);
  if (found == std::string_view::npos) return -1;
  return static_cast<int64_t>(part.first_index + count_code_points(part.text.substr(0, found)));
}
template <bool kRight>
Value found(In& in, const Value& self, const Args& args) {
  return Value::integer(find_in(in, self, args, kRight));
}
template <bool kRight>
Value indexed(In& in, const Value& self, const Args& args) {
  const int64_t index = find_in(in, self, args, kRight);
  if (index < 0) raise("substring not found");
  return Value::integer(index);
}

Value counted(In& in, const Value& self, const Args& arguments) {
  const auto args = bind(arguments, 1, "sub", "start", "end");
  const std::string_view wanted = args.text(0, "");
  const Window part = window(in, self, args);
  if (!part.valid) return Value::integer(0);
  if (wanted.empty()) return Value::integer(static_cast<int64_t>(count_code_points(part.text)) + 1);
  int64_t count = 0;
  for (size_t at = part.text.find(wanted); at != std::string_view::npos;
       at = part.text.find(wanted, at + wanted.size())) {
    ++count;
  }
  return Value::integer(count);
}

Value replaced(In& in, const Value& self, const Args& arguments) {
  const auto args = bind(arguments, 2, "old", "new", "count");
  const auto charge = [&](size_t bytes) { in.reserve_text(bytes); };
  in.reserve_text(self.as_string().size());
  const bool escapes = self.is_markup() && args[1].is_string() && !args[1].is_markup();
  const std::string escaped = escapes ? escape_html(args.text(1, "")) : "";
  return same_kind(
      in, self,
      replace(self.as_string(), args.text(0, ""), escapes ? escaped : args.text(1, ""), args.integer(2, -1), charge));
}

Value joined(In& in, const Value& self, const Args& arguments) {
  const auto args = bind(arguments, 1, "iterable");
  const Next next = in.iterate(args[0]);
  std::string out;
  int64_t index = 0;
  for (Value item; next(item); ++index) {
    in.step();
    if (!item.is_string()) raise("sequence item {}: expected str instance, {} found", index, type_name(item));
    if (index > 0) out += self.as_string();
    out += self.is_markup() && !item.is_markup() ? escape_html(item.as_string()) : item.as_string();
    if (out.size() > in.options().limits.max_text_bytes) in.reserve_text(out.size());
  }
  return same_kind(in, self, std::move(out));
}

Value formatted(In& in, const Value& self, const Args& args) {
  if (self.is_markup()) raise("format on text marked safe is not supported; drop the filter 'safe'");
  return in.make_string(format_braces(in, self.as_string(), args));
}

template <bool kEnd>
Value without_affix(In& in, const Value& self, const Args& arguments) {
  const auto args = bind(arguments, 1, "prefix");
  std::string_view text = self.as_string();
  const std::string_view affix = args.text(0, "");
  if (kEnd && text.ends_with(affix)) text.remove_suffix(affix.size());
  if (!kEnd && text.starts_with(affix)) text.remove_prefix(affix.size());
  return same_kind(in, self, std::string(text));
}

// ljust, rjust, center: the share of the padding that goes to the left, as Python rounds it.
enum class Align { left, right, center };
template <Align kAlign>
Value padded(In& in, const Value& self, const Args& arguments) {
  const auto args = bind(arguments, 1, "width", "fillchar");
  const int64_t width = args.integer(0, 0);
  const std::string_view fill = args.text(1, " ");
  if (count_code_points(fill) != 1) raise("The fill character must be exactly one character long");
  const std::string& text = self.as_string();
  const int64_t missing = width - static_cast<int64_t>(count_code_points(text));
  if (missing <= 0) return self;
  in.reserve_text(text.size() + static_cast<size_t>(missing) * fill.size());
  const int64_t middle = missing / 2 + (missing & width & 1);
  const int64_t left = kAlign == Align::left ? 0 : kAlign == Align::right ? missing : middle;
  std::string out;
  for (int64_t index = 0; index < left; ++index) out += fill;
  out += text;
  for (int64_t index = left; index < missing; ++index) out += fill;
  return same_kind(in, self, std::move(out));
}

Value zero_filled(In& in, const Value& self, const Args& arguments) {
  const int64_t width = bind(arguments, 1, "width").integer(0, 0);
  std::string text = self.as_string();
  const int64_t missing = width - static_cast<int64_t>(count_code_points(text));
  if (missing <= 0) return self;
  in.reserve_text(text.size() + static_cast<size_t>(missing));
  const bool has_sign = !text.empty() && (text[0] == '+' || text[0] == '-');
  text.insert(has_sign ? 1 : 0, static_cast<size_t>(missing), '0');
  return same_kind(in, self, std::move(text));
}

template <bool (*kPredicate)(char32_t)>
Value all_of(In& in, const Value& self, const Args& args) {
  expect_none(args);
  const std::string& text = self.as_string();
  in.step(text.size() / 16);
  bool all = !text.empty();
  for (size_t at = 0; all && at < text.size();) all = kPredicate(next_code_point(text, at));
  return Value::boolean(all);
}

bool is_alpha(char32_t code) {
  return (U_GET_GC_MASK(static_cast<UChar32>(code)) & U_GC_L_MASK) != 0;
}
bool is_decimal(char32_t code) {
  return u_charType(static_cast<UChar32>(code)) == U_DECIMAL_DIGIT_NUMBER;
}
bool is_digit(char32_t code) {
  const int32_t type = u_getIntPropertyValue(static_cast<UChar32>(code), UCHAR_NUMERIC_TYPE);
  return type == U_NT_DECIMAL || type == U_NT_DIGIT;
}
bool is_numeric(char32_t code) {
  return u_getIntPropertyValue(static_cast<UChar32>(code), UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}
bool is_alnum(char32_t code) {
  return is_alpha(code) || is_numeric(code);
}
bool is_ascii(char32_t code) {
  return code < 0x80;
}

Value ascii(In& in, const Value& self, const Args& args) {
  return self.as_string().empty() ? Value::boolean(true) : all_of<is_ascii>(in, self, args);
}

// islower and isupper are the tests `lower` and `upper`.
template <bool kUpper>
Value cased(In& in, const Value& self, const Args& args) {
  return Value::boolean(in.call_test(kUpper ? "upper" : "lower", self, args));
}

Value titled(In& in, const Value& self, const Args& args) {
  const Value lower = mapped<to_lower>(in, self, args);
  return Value::boolean(to_title(self.as_string()) == self.as_string() &&
                        to_upper(self.as_string()) != lower.as_string());
}

Value printable(In& in, const Value& self, const Args& args) {
  return self.as_string().empty() ? Value::boolean(true) : all_of<is_printable>(in, self, args);
}

Value identifier(In& in, const Value& self, const Args& args) {
  expect_none(args);
  const std::string& text = self.as_string();
  in.step(text.size() / 16);
  bool all = !text.empty();
  for (size_t at = 0; all && at < text.size();) {
    const UProperty property = at == 0 ? UCHAR_XID_START : UCHAR_XID_CONTINUE;
    const auto code = static_cast<UChar32>(next_code_point(text, at));
    all = code == '_' || u_hasBinaryProperty(code, property) != 0;
  }
  return Value::boolean(all);
}

Value tabs_expanded(In& in, const Value& self, const Args& arguments) {
  const int64_t size = bind(arguments, 0, "tabsize").integer(0, 8);
  const std::string& text = self.as_string();
  in.reserve_text(text.size());
  std::string out;
  int64_t column = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t code = next_code_point(text, at);
    if (code == '\t') {
      const int64_t blanks = size > 0 ? size - column % size : 0;
      in.step();
      const size_t grown = out.size() + static_cast<size_t>(blanks);
      if (grown > in.options().limits.max_text_bytes) in.reserve_text(grown);
      out.append(static_cast<size_t>(blanks), ' ');
      column += blanks;
      continue;
    }
    out.append(text, begin, at - begin);
    column = code == '\n' || code == '\r' ? 0 : column + 1;
  }
  return same_kind(in, self, std::move(out));
}

constexpr MethodEntry kStringMethods[] = {
    {"capitalize", mapped<capitalize>},
    {"casefold", mapped<fold_case>},
    {"center", padded<Align::center>},
    {"count", counted},
    {"endswith", affixed<true>},
    {"expandtabs", tabs_expanded},
    {"find", found<false>},
    {"format", formatted},
    {"index", indexed<false>},
    {"isalnum", all_of<is_alnum>},
    {"isalpha", all_of<is_alpha>},
    {"isascii", ascii},
    {"isdecimal", all_of<is_decimal>},
    {"isdigit", all_of<is_digit>},
    {"isidentifier", identifier},
    {"islower", cased<false>},
    {"isnumeric", all_of<is_numeric>},
    {"isprintable", printable},
    {"isspace", all_of<is_space>},
    {"istitle", titled},
    {"isupper", cased<true>},
    {"join", joined},
    {"ljust", padded<Align::left>},
    {"lower", mapped<to_lower>},
    {"lstrip", stripped<Side::left>},
    {"partition", partition<false>},
    {"removeprefix", without_affix<false>},
    {"removesuffix", without_affix<true>},
    {"replace", replaced},
    {"rfind", found<true>},
    {"rindex", indexed<true>},
    {"rjust", padded<Align::right>},
    {"rpartition", partition<true>},
    {"rsplit", splitted<true>},
    {"rstrip", stripped<Side::right>},
    {"split", splitted<false>},
    {"splitlines", splitlines},
    {"startswith", affixed<false>},
    {"strip", stripped<Side::both>},
    {"swapcase", mapped<swap_case>},
    {"title", mapped<to_title>},
    {"upper", mapped<to_upper>},
    {"zfill", zero_filled},
};

}  // namespace

const MethodEntry* find_string_method(std::string_view name) {
  return find_entry(kStringMethods, name);
}

}  // namespace minfer::chat::jinja
