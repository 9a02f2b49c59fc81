// str.format: replacement fields in braces with the format specifications of Python's str, int and float. Apart from
// percent_format.cpp, whose specifications are another language; what both lay out alike is in format_spec.hpp. Widths
// count code points. Type 'n' is that of the C locale.
// Oracle: CPython 3.11, and the sandbox of jinja2 for what a field may reach.
#include <cmath>

#include "base/utf8.hpp"
#include "chat/jinja/format_spec.hpp"
#include "chat/jinja/operators.hpp"
#include "chat/jinja/present.hpp"
#include "chat/jinja/text.hpp"

namespace minfer::chat::jinja {
namespace {

struct Spec {
  std::string fill = " ";
  char align = '\0';
  char sign = '-';
  bool alternate = false;
  bool zero = false;
  int64_t width = 0;
  char group = '\0';
  std::optional<int64_t> precision;
  char type = '\0';
};

bool is_align(char byte) {
  return byte == '<' || byte == '>' || byte == '^' || byte == '=';
}

int64_t read_number(std::string_view spec, size_t& at, int64_t limit) {
  int64_t value = 0;
  for (; at < spec.size() && spec[at] >= '0' && spec[at] <= '9'; ++at) {
    value = value * 10 + (spec[at] - '0');
    if (value > limit) raise("a format's width or precision is over {}", limit);
  }
  return value;
}

Spec parse_spec(std::string_view spec) {
  Spec result;
  size_t at = 0;
  const auto next_is = [&](char byte) { return at < spec.size() && spec[at] == byte; };
  size_t behind_fill = 0;
  if (!spec.empty()) next_code_point(spec, behind_fill);
  if (behind_fill < spec.size() && is_align(spec[behind_fill])) {
    result.fill = spec.substr(0, behind_fill);
    result.align = spec[behind_fill];
    at = behind_fill + 1;
  } else if (!spec.empty() && is_align(spec[0])) {
    result.align = spec[at++];
  }
  if (next_is('+') || next_is('-') || next_is(' ')) result.sign = spec[at++];
  if (next_is('#')) result.alternate = ++at > 0;
  if (next_is('0')) result.zero = ++at > 0;
  result.width = read_number(spec, at, kMaxFormatWidth);
  if (next_is(',') || next_is('_')) result.group = spec[at++];
  if (next_is('.')) {
    const size_t begin = ++at;
    result.precision = read_number(spec, at, kMaxFormatPrecision);
    if (at == begin) raise("Format specifier missing precision");
  }
  if (at < spec.size()) result.type = spec[at++];
  if (at < spec.size()) raise("Invalid format specifier '{}'", spec);
  return result;
}

// Separators between groups of digits before the point.
std::string grouped(std::string digits, char separator, size_t size) {
  if (separator == '\0') return digits;
  const size_t end = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  for (size_t at = end; at > size; at -= size) digits.insert(at - size, 1, separator);
  return digits;
}

std::string layout_number(Interpreter& in, const Spec& spec, bool negative, const std::string& prefix,
                          std::string digits) {
  std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  sign += prefix;
  const char align = spec.align != '\0' ? spec.align : spec.zero ? '=' : '>';
  const std::string fill = spec.align == '\0' && spec.zero ? "0" : spec.zero && spec.fill == " " ? "0" : spec.fill;
  return pad(in, sign + std::move(digits), spec.width, align, fill, sign.size());
}

std::string format_text(Interpreter& in, std::string text, const Spec& spec) {
  if (spec.type != '\0' && spec.type != 's') raise("Unknown format code '{}' for object of type 'str'", spec.type);
  if (spec.align == '=' || spec.sign != '-' || spec.group != '\0')
    raise("Sign, '=' or ',' not allowed in string format specifier");
  if (spec.precision) text.resize(byte_offset(text, static_cast<size_t>(*spec.precision)));
  const std::string fill = spec.zero && spec.align == '\0' ? "0" : spec.fill;
  return pad(in, std::move(text), spec.width, spec.align == '\0' ? '<' : spec.align, fill, 0);
}

// A precision without a type: 'g' that keeps a digit behind the point, and takes the exponent one digit earlier.
std::string general_digits(double magnitude, int precision) {
  std::string digits = format_float(magnitude, 'g', precision, false);
  if (!std::isfinite(magnitude) || digits.find_first_of(".e") != std::string::npos) return digits;
  if (static_cast<int>(digits.size()) < precision) return digits + ".0";
  digits = format_float(magnitude, 'e', precision - 1, false);
  const size_t mark = digits.find('e');
  if (digits.find('.') == std::string::npos) return digits;
  const size_t last = digits.find_last_not_of('0', mark - 1);
  return digits.erase(last + (digits[last] == '.' ? 0 : 1), mark - last - (digits[last] == '.' ? 0 : 1));
}

std::string format_number(Interpreter& in, double value, const Spec& spec) {
  const double magnitude = std::abs(value);
  const bool negative = std::signbit(value) && !std::isnan(value);
  std::string digits;
  if (spec.type == '%') {
    digits = format_float(magnitude * 100, 'f', static_cast<int>(spec.precision.value_or(6)), spec.alternate) + "%";
  } else if (spec.type == '\0' && !spec.precision) {
    digits = float_text(magnitude);
  } else if (spec.type == '\0') {
    digits = general_digits(magnitude, static_cast<int>(std::max<int64_t>(*spec.precision, 1)));
  } else if (spec.type == 'n') {
    digits = format_float(magnitude, 'g', static_cast<int>(spec.precision.value_or(6)), spec.alternate);
  } else if (std::string_view("eEfFgG").find(spec.type) != std::string_view::npos) {
    digits = format_float(magnitude, spec.type, static_cast<int>(spec.precision.value_or(6)), spec.alternate);
  } else {
    raise("Unknown format code '{}' for object of type 'float'", spec.type);
  }
  return layout_number(in, spec, negative, "", grouped(std::move(digits), spec.group, 3));
}

std::string format_character(Interpreter& in, int64_t value, const Spec& spec) {
  if (spec.sign != '-') raise("Sign not allowed with integer format specifier 'c'");
  if (spec.alternate) raise("Alternate form (#) not allowed with integer format specifier 'c'");
  if (value < 0 || value > 0x10FFFF) raise("%c arg not in range(0x110000)");
  if (value >= 0xD800 && value <= 0xDFFF) raise("a lone surrogate is not supported");
  std::string text;
  append_utf8(text, static_cast<char32_t>(value));
  return pad(in, std::move(text), spec.width,
             spec.align != '\0' ? spec.align
             : spec.zero        ? '='
                                : '>',
             spec.zero && spec.align == '\0' ? "0" : spec.fill, 0);
}

std::string format_integer(Interpreter& in, int64_t value, const Spec& spec) {
  if (std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos && spec.type != '\0') {
    return format_number(in, static_cast<double>(value), spec);
  }
  if (spec.precision) raise("Precision not allowed in integer format specifier");
  if (spec.type == 'c') return format_character(in, value, spec);
  int base = 10;
  switch (spec.type) {
    case '\0':
    case 'd':
    case 'n':
      break;
    case 'b':
      base = 2;
      break;
    case 'o':
      base = 8;
      break;
    case 'x':
    case 'X':
      base = 16;
      break;
    default:
      raise("Unknown format code '{}' for object of type 'int'", spec.type);
  }
  const std::string prefix = spec.alternate && base != 10 ? std::string("0") + spec.type : "";
  std::string digits = integer_digits(value, base, spec.type == 'X');
  return layout_number(in, spec, value < 0, prefix, grouped(std::move(digits), spec.group, base == 10 ? 3 : 4));
}

class BraceFormatter {
 public:
  BraceFormatter(Interpreter& in, const Arguments& arguments) : in_(in), arguments_(arguments) {}

  std::string run(std::string_view format, int depth) {
    if (depth > 2) raise("Max string recursion exceeded");
    std::string out;
    for (size_t at = 0; at < format.size();) {
      in_.step();
      const char byte = format[at];
      if (byte != '{' && byte != '}') {
        out += format[at++];
      } else if (at + 1 < format.size() && format[at + 1] == byte) {
        out += byte;
        at += 2;
      } else if (byte == '}') {
        raise("Single '}}' encountered in format string");
      } else {
        const size_t end = field_end(format, at + 1);
        out += field(format.substr(at + 1, end - at - 1), depth);
        at = end + 1;
      }
      if (out.size() > in_.options().limits.max_text_bytes) in_.reserve_text(out.size());
    }
    return out;
  }

 private:
  static size_t field_end(std::string_view format, size_t at) {
    for (int open = 1; at < format.size(); ++at) {
      if (format[at] == '{') ++open;
      if (format[at] == '}' && --open == 0) return at;
    }
    raise("expected '}}' before end of string");
  }

  std::string field(std::string_view text, int depth) {
    const size_t colon = text.find(':');
    std::string_view name = text.substr(0, std::min(text.find_first_of("!:"), text.size()));
    const std::string spec = colon == std::string_view::npos ? "" : run(text.substr(colon + 1), depth + 1);
    Value value = lookup(name);
    if (name.size() < text.size() && text[name.size()] == '!') {
      const std::string_view conversion = text.substr(name.size() + 1, std::min(colon, text.size()) - name.size() - 1);
      std::string shown;
      if (conversion == "s") {
        append_text(in_, shown, value);
      } else if (conversion == "r" || conversion == "a") {
        append_repr(in_, shown, value);
        if (conversion == "a") shown = ascii_text(shown);
      } else {
        raise("Unknown conversion specifier '{}'", conversion);
      }
      value = in_.make_string(std::move(shown));
    }
    return format_value(in_, value, spec);
  }

  Value first(std::string_view name) {
    const bool digits =
        !name.empty() && name.size() < 10 && name.find_first_not_of("0123456789") == std::string_view::npos;
    if (name.empty() || digits) {
      const size_t index = name.empty() ? next_++ : std::stoul(std::string(name));
      if (index >= arguments_.positional.size()) {
        raise("Replacement index {} out of range for positional args tuple", index);
      }
      return arguments_.positional[index];
    }
    for (const auto& [key, value] : arguments_.keyword) {
      if (key == name) return value;
    }
    raise("the format's field '{}' is not among the arguments", name);
  }

  Value lookup(std::string_view name) {
    size_t at = std::min(name.find_first_of(".["), name.size());
    Value value = first(name.substr(0, at));
    while (at < name.size()) {
      in_.step();
      const bool item = name[at] == '[';
      const size_t end = std::min(item ? name.find(']', at) : name.find_first_of(".[", at + 1), name.size());
      if (item && end == name.size()) raise("Missing ']' in format string");
      const std::string key(name.substr(at + 1, end - at - 1));
      if (key.empty()) raise("Empty attribute in format string");
      const bool digits = item && key.size() < 18 && key.find_first_not_of("0123456789") == std::string::npos;
      value = !item ? in_.get_attribute(value, key)
                    : in_.get_item(value, digits ? Value::integer(std::stoll(key)) : in_.make_string(key));
      at = item ? end + 1 : end;
    }
    return value;
  }

  Interpreter& in_;
  const Arguments& arguments_;
  size_t next_ = 0;
};

}  // namespace

std::string format_value(Interpreter& in, const Value& value, std::string_view spec_text) {
  if (spec_text.empty()) return in.text_of(value);
  const Spec spec = parse_spec(spec_text);
  switch (value.kind()) {
    case Kind::string:
      return format_text(in, value.as_string(), spec);
    case Kind::boolean:
    case Kind::integer:
      return format_integer(in, value.as_int(), spec);
    case Kind::floating:
      return format_number(in, value.as_double(), spec);
    default:
      raise("unsupported format string passed to {}.__format__", type_name(value));
  }
}

std::string format_braces(Interpreter& in, std::string_view format, const Arguments& arguments) {
  return BraceFormatter(in, arguments).run(format, 0);
}

}  // namespace minfer::chat::jinja
