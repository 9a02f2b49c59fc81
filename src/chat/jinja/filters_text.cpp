// Filters on text. Like jinja2's, most take any value's text form, and markup stays markup. Lengths and widths are in
// code points. What a filter makes is charged to the limit on text: before it is built where it can be much longer than
// the input, else by make_string. See filters.hpp.
#include "chat/jinja/arguments.hpp"
#include "chat/jinja/filters.hpp"
#include "chat/jinja/present.hpp"
#include "chat/jinja/text.hpp"

namespace minfer::chat::jinja {
namespace {

// `input` as text (markup stays markup), and the function's result with the same mark.
template <class Function>
Value map_text(Interpreter& in, const Value& input, const Function& function) {
  const std::string text = in.text_of(input);
  in.reserve_text(text.size());
  return in.make_string(function(text), input.is_markup());
}

std::string title_words(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const auto is_border = [](char32_t code) {
      return code == '-' || code == '(' || code == '{' || code == '[' || code == '<' || is_space(code);
    };
    const bool border = is_border(next_code_point(text, at));
    const size_t first_end = at;
    for (size_t next = at; at < text.size(); at = next) {
      if (is_border(next_code_point(text, next)) != border) break;
    }
    out += to_upper(text.substr(begin, first_end - begin)) + to_lower(text.substr(first_end, at - first_end));
  }
  return out;
}

std::string percent_encode(std::string_view text, bool for_query) {
  static constexpr std::string_view kSafe = "-._~";
  std::string out;
  for (const char byte : text) {
    const bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9');
    if (letter || kSafe.find(byte) != std::string_view::npos || (byte == '/' && !for_query)) {
      out += byte;
    } else if (byte == ' ' && for_query) {
      out += '+';
    } else {
      fmt::format_to(std::back_inserter(out), "%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(byte)));
    }
  }
  return out;
}

}  // namespace

Value filter_capitalize(Interpreter& in, const Value& input, const Arguments& arguments) {
  expect_none(arguments);
  return map_text(in, input, capitalize);
}

Value filter_lower(Interpreter& in, const Value& input, const Arguments& arguments) {
  expect_none(arguments);
  return map_text(in, input, to_lower);
}

Value filter_upper(Interpreter& in, const Value& input, const Arguments& arguments) {
  expect_none(arguments);
  return map_text(in, input, to_upper);
}

Value filter_title(Interpreter& in, const Value& input, const Arguments& arguments) {
  expect_none(arguments);
  return in.make_string(title_words(in.text_of(input)));
}

Value filter_string(Interpreter& in, const Value& input, const Arguments& arguments) {
  expect_none(arguments);
  return input.is_string() ? input : in.make_string(in.text_of(input));
}

Value filter_safe(Interpreter& in, const Value& input, const Arguments& arguments) {
  expect_none(arguments);
  return in.make_string(in.text_of(input), true);
}

Value filter_escape(Interpreter& in, const Value& input, const Arguments& arguments) {
  expect_none(arguments);
  return input.is_markup() ? input : in.make_string(escape_html(in.text_of(input)), true);
}

Value filter_forceescape(Interpreter& in, const Value& input, const Arguments& arguments) {
  expect_none(arguments);
  return in.make_string(escape_html(in.text_of(input)), true);
}

Value filter_trim(Interpreter& in, const Value& input, const Arguments& arguments) {
  const auto args = bind(arguments, 0, "chars");
  std::optional<std::string_view> chars;
  if (args.given(0)) chars = args.text(0, "");
  return map_text(in, input, [&](std::string_view text) { return std::string(strip(text, chars, Side::both)); });
}

Value filter_center(Interpreter& in, const Value& input, const Arguments& arguments) {
  Arguments padded;
  padded.positional.push_back(Value::integer(bind(arguments, 0, "width").integer(0, 80)));
  const Value text = input.is_string() ? input : in.make_string(in.text_of(input));
  return find_method(text, "center")(in, text, padded);
}

Value filter_format(Interpreter& in, const Value& input, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.keyword.empty()) {
    raise("can't handle positional and keyword arguments at the same time");
  }
  Dict named;
  for (const auto& [name, value] : arguments.keyword) named.set(name, value);
  const Value values = named.empty() ? in.make_tuple(arguments.positional) : in.make_dict(std::move(named));
  return in.make_string(format_percent(in, in.text_of(input), values));
}

Value filter_replace(Interpreter& in, const Value& input, const Arguments& arguments) {
  const auto args = bind(arguments, 2, "old", "new", "count");
  const int64_t count = args.given(2) ? args.integer(2, -1) : -1;
  const auto charge = [&](size_t bytes) { in.reserve_text(bytes); };
  const std::string text = in.text_of(input);
  in.reserve_text(text.size());
  return in.make_string(replace(text, in.text_of(args[0]), in.text_of(args[1]), count, charge));
}

Value filter_indent(Interpreter& in, const Value& input, const Arguments& arguments) {
  const auto args = bind(arguments, 0, "width", "first", "blank");
  if (input.is_undefined()) fail_undefined(input);
  if (!input.is_string()) raise("unsupported operand type(s) for +=: '{}' and 'str'", type_name(input));
  std::string indent;
  if (args.has(0) && args[0].is_string()) {
    indent = args[0].as_string();
  } else {
    const int64_t width = args.integer(0, 4);
    if (width > 0) in.reserve_text(static_cast<size_t>(width));
    indent.assign(width > 0 ? static_cast<size_t>(width) : 0, ' ');
  }
  const std::string text = input.as_string() + "\n";  // so that an empty last line counts
  const auto lines = split_lines(text, false);
  in.reserve_text(text.size() + lines.size() * indent.size());
  std::string out = args.flag(1) ? indent : "";
  for (size_t index = 0; index < lines.size(); ++index) {
    if (index > 0) out += '\n';
    if (index > 0 && (args.flag(2) || !lines[index].empty())) out += indent;
    out += lines[index];
  }
  return in.make_string(std::move(out), input.is_markup());
}

Value filter_truncate(Interpreter& in, const Value& input, const Arguments& arguments) {
  const auto args = bind(arguments, 0, "length", "killwords", "end", "leeway");
  const int64_t length = args.integer(0, 255);
  const std::string_view end = args.text(2, "...");
  const int64_t leeway = args.given(3) ? args.integer(3, 5) : 5;
  const auto end_length = static_cast<int64_t>(count_code_points(end));
  if (length < end_length) raise("expected length >= {}, got {}", end_length, length);
  if (leeway < 0) raise("expected leeway >= 0, got {}", leeway);
  const int64_t size = length_of(input);
  if (leeway > INT64_MAX - length || size <= length + leeway) return input;
  if (!input.is_string()) raise("expected a text, got '{}'", type_name(input));
  const std::string_view text = input.as_string();
  std::string_view kept = text.substr(0, byte_offset(text, static_cast<size_t>(length - end_length)));
  if (!args.flag(1)) kept = split_right(kept, " ", 1).front();
  return in.make_string(std::string(kept) + std::string(end));
}

Value filter_wordcount(Interpreter& in, const Value& input, const Arguments& arguments) {
  expect_none(arguments);
  const std::string text = in.text_of(input);
  in.reserve_text(text.size());
  int64_t count = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const bool word = is_word(next_code_point(text, at));
    if (word && !inside) ++count;
    inside = word;
  }
  return Value::integer(count);
}

Value filter_urlencode(Interpreter& in, const Value& input, const Arguments& arguments) {
  expect_none(arguments);
  const bool scalar = input.is_string() || input.is_number() || input.is_none();
  if (scalar) return in.make_string(percent_encode(in.text_of(input), false));
  const Value pairs = input.is(Kind::dict) ? make_object<ViewObject>(input, ViewKind::items) : input;
  std::string out;
  for (const Value& pair : in.collect(pairs)) {
    const std::vector<Value> parts = in.collect(pair);
    if (parts.size() != 2) raise("expected pairs of key and value");
    if (!out.empty()) out += '&';
    out += percent_encode(in.text_of(parts[0]), true) + "=" + percent_encode(in.text_of(parts[1]), true);
    in.reserve_text(out.size());
  }
  return in.make_string(std::move(out));
}

// transformers' tojson: json.dumps with its defaults, but ensure_ascii off.
Value filter_tojson(Interpreter& in, const Value& input, const Arguments& arguments) {
  const auto args = bind(arguments, 0, "ensure_ascii", "indent", "separators", "sort_keys");
  JsonOptions options;
  options.ensure_ascii = args.flag(0);
  options.sort_keys = args.flag(3);
  if (args.given(1)) {
    if (args[1].is_string()) {
      options.indent = args[1].as_string();
    } else {
      const int64_t width = args.integer(1, 0);
      if (width > 0) in.reserve_text(static_cast<size_t>(width));
      options.indent = std::string(width > 0 ? static_cast<size_t>(width) : 0, ' ');
    }
    options.item_separator = ",";
  }
  if (args.given(2)) {
    const std::vector<Value> separators = in.collect(args[2]);
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string()) {
      raise("separators must be two strings");
    }
    options.item_separator = separators[0].as_string();
    options.key_separator = separators[1].as_string();
  }
  std::string out;
  append_json(in, out, input, options);
  return in.make_string(std::move(out));
}

}  // namespace minfer::chat::jinja
