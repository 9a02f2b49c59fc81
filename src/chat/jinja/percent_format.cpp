// text % value: Python's printf-style formatting, and the layout helpers that str.format shares (format_spec.hpp).
// Widths count code points; a width or precision over the limits of format_spec.hpp is an error. Oracle: CPython 3.11.
#include <cmath>

#include "base/utf8.hpp"
#include "chat/jinja/format_spec.hpp"
#include "chat/jinja/operators.hpp"
#include "chat/jinja/present.hpp"
#include "chat/jinja/text.hpp"

namespace minfer::chat::jinja {

std::string pad(Interpreter& in, std::string text, int64_t width, char align, std::string_view fill, size_t sign) {
  const int64_t missing = width - static_cast<int64_t>(count_code_points(text));
  if (missing <= 0) return text;
  in.reserve_text(text.size() + static_cast<size_t>(missing) * fill.size());
  const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  const auto fill_times = [&](int64_t count) {
    std::string out;
    for (int64_t index = 0; index < count; ++index) out += fill;
    return out;
  };
  if (align == '=') return text.substr(0, sign) + fill_times(missing) + text.substr(sign);
  return fill_times(left) + text + fill_times(missing - left);
}

std::string ascii_text(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const char32_t code = next_code_point(text, at);
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else {
      const int digits = code < 0x100 ? 2 : code < 0x10000 ? 4 : 8;
      const char letter = code < 0x100 ? 'x' : code < 0x10000 ? 'u' : 'U';
      fmt::format_to(std::back_inserter(out), "\\{}{:0{}x}", letter, static_cast<uint32_t>(code), digits);
    }
  }
  return out;
}

std::string integer_digits(int64_t value, int base, bool upper) {
  const uint64_t magnitude = value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  switch (base) {
    case 2:
      return fmt::format("{:b}", magnitude);
    case 8:
      return fmt::format("{:o}", magnitude);
    case 16:
      return upper ? fmt::format("{:X}", magnitude) : fmt::format("{:x}", magnitude);
    default:
      return fmt::format("{}", magnitude);
  }
}

namespace {

struct Directive {
  std::string key;
  bool has_key = false;
  bool left = false, zero = false, plus = false, blank = false, alternate = false;
  int64_t width = 0;
  std::optional<int64_t> precision;
  char type = 's';
};

class PercentFormatter {
 public:
  PercentFormatter(Interpreter& in, std::string_view format, const Value& value)
      : in_(in), format_(format), value_(value), is_tuple_(value.is(Kind::tuple)) {}

  std::string run() {
    while (at_ < format_.size()) {
      in_.step();
      if (format_[at_] != '%') {
        const size_t end = std::min(format_.find('%', at_), format_.size());
        out_ += format_.substr(at_, end - at_);
        at_ = end;
        continue;
      }
      ++at_;
      const Directive directive = parse();
      out_ += directive.type == '%' ? "%" : convert(directive);
      in_.reserve_text(out_.size());
    }
    const bool all_used = is_tuple_ ? next_ >= value_.items().size() : next_ > 0;
    if (!all_used && !value_.is(Kind::dict) && !is_mapping_like()) {
      raise("not all arguments converted during string formatting");
    }
    return std::move(out_);
  }

 private:
  // What Python's check takes for a mapping, which need not be used up: all with item access but text and tuples.
  bool is_mapping_like() const {
    return value_.is(Kind::list) || value_.is_undefined() || is_object(value_, ObjectType::range);
  }

  char peek() const {
    if (at_ >= format_.size()) raise("incomplete format");
    return format_[at_];
  }

  Directive parse() {
    Directive directive;
    if (peek() == '(') {
      const size_t close = format_.find(')', at_);
      if (close == std::string_view::npos) raise("incomplete format key");
      directive.key = format_.substr(at_ + 1, close - at_ - 1);
      directive.has_key = true;
      at_ = close + 1;
    }
    for (;; ++at_) {
      const char flag = peek();
      if (flag == '-')
        directive.left = true;
      else if (flag == '0')
        directive.zero = true;
      else if (flag == '+')
        directive.plus = true;
      else if (flag == ' ')
        directive.blank = true;
      else if (flag == '#')
        directive.alternate = true;
      else
        break;
    }
    directive.width = number(kMaxFormatWidth);
    if (directive.width < 0) {
      directive.left = true;
      directive.width = -directive.width;
    }
    if (peek() == '.') {
      ++at_;
      directive.precision = std::max<int64_t>(number(kMaxFormatPrecision), 0);
    }
    if (peek() == 'h' || peek() == 'l' || peek() == 'L') ++at_;
    directive.type = peek();
    ++at_;
    return directive;
  }

  int64_t number(int64_t limit) {
    int64_t value = 0;
    if (peek() == '*') {
      ++at_;
      const Value given = argument();
      if (!given.is_int()) raise("* wants int");
      value = given.as_int();
    } else {
      for (; peek() >= '0' && peek() <= '9' && value <= limit; ++at_) value = value * 10 + (format_[at_] - '0');
    }
    if (value > limit || value < -limit) raise("a format's width or precision is over {}", limit);
    return value;
  }

  Value argument() {
    if (!is_tuple_) {
      if (next_++ > 0) raise("not enough arguments for format string");
      return value_;
    }
    if (next_ >= value_.items().size()) raise("not enough arguments for format string");
    return value_.items()[next_++];
  }

  Value subject(const Directive& directive) {
    if (!directive.has_key) return argument();
    if (!value_.is(Kind::dict)) raise("format requires a mapping");
    const Value* found = value_.as_dict().find(directive.key);
    if (found == nullptr) raise("the format's key '{}' is not in the mapping", directive.key);
    return *found;
  }

  std::string sign_of(const Directive& directive, bool negative) const {
    return negative ? "-" : directive.plus ? "+" : directive.blank ? " " : "";
  }

  std::string convert(const Directive& directive) {
    const Value value = subject(directive);
    switch (directive.type) {
      case 's':
      case 'r':
      case 'a':
        return convert_text(directive, value);
      case 'c':
        return convert_character(directive, value);
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        return convert_integer(directive, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return convert_float(directive, value);
      default:
        raise("unsupported format character '{}'", directive.type);
    }
  }

  std::string convert_text(const Directive& directive, const Value& value) {
    std::string text;
    if (directive.type == 's') {
      text = in_.text_of(value);
    } else {
      append_repr(in_, text, value);
      if (directive.type == 'a') text = ascii_text(text);
    }
    if (directive.precision) text.resize(byte_offset(text, static_cast<size_t>(*directive.precision)));
    return pad(in_, std::move(text), directive.width, directive.left ? '<' : '>', " ", 0);
  }

  std::string convert_character(const Directive& directive, const Value& value) {
    std::string text;
    if (value.is_string() && count_code_points(value.as_string()) == 1) {
      text = value.as_string();
    } else if (value.is_int() && value.as_int() >= 0 && value.as_int() <= 0x10FFFF &&
               (value.as_int() < 0xD800 || value.as_int() > 0xDFFF)) {
      append_utf8(text, static_cast<char32_t>(value.as_int()));
    } else {
      raise("%c requires int or char");
    }
    return pad(in_, std::move(text), directive.width, directive.left ? '<' : '>', " ", 0);
  }

  std::string layout(const Directive& directive, std::string sign, std::string digits) {
    const size_t sign_size = sign.size();
    const char align = directive.left ? '<' : directive.zero ? '=' : '>';
    return pad(in_, std::move(sign) + std::move(digits), directive.width, align, align == '=' ? "0" : " ", sign_size);
  }

  std::string convert_integer(const Directive& directive, const Value& value) {
    const bool decimal = directive.type == 'd' || directive.type == 'i' || directive.type == 'u';
    if (value.is_undefined()) fail_undefined(value);
    if (!value.is_int() && !(decimal && value.is(Kind::floating))) {
      raise("%{} format: a real number is required, not {}", directive.type, type_name(value));
    }
    if (value.is(Kind::floating) && !(std::abs(value.as_double()) < 9.2e18)) {
      raise("%{} format: {} does not fit in 64 bits", directive.type, float_text(value.as_double()));
    }
    const int64_t number = value.is_int() ? value.as_int() : static_cast<int64_t>(value.as_double());
    const bool upper = directive.type == 'X';
    std::string digits = integer_digits(number, decimal ? 10 : directive.type == 'o' ? 8 : 16, upper);
    if (directive.precision && static_cast<int64_t>(digits.size()) < *directive.precision) {
      digits.insert(0, static_cast<size_t>(*directive.precision) - digits.size(), '0');
    }
    std::string sign = sign_of(directive, number < 0);
    if (directive.alternate && !decimal) sign += directive.type == 'o' ? "0o" : upper ? "0X" : "0x";
    return layout(directive, std::move(sign), std::move(digits));
  }

  std::string convert_float(const Directive& directive, const Value& value) {
    if (value.is_undefined()) fail_undefined(value);
    if (!value.is_number()) raise("must be real number, not {}", type_name(value));
    const double number = value.as_double();
    std::string digits = format_float(std::abs(number), directive.type,
                                      static_cast<int>(directive.precision.value_or(6)), directive.alternate);
    return layout(directive, sign_of(directive, std::signbit(number) && !std::isnan(number)), std::move(digits));
  }

  Interpreter& in_;
  std::string_view format_;
  const Value& value_;
  bool is_tuple_;
  size_t at_ = 0;
  size_t next_ = 0;
  std::string out_;
};

}  // namespace

std::string format_percent(Interpreter& in, std::string_view format, const Value& value) {
  return PercentFormatter(in, format, value).run();
}

}  // namespace minfer::chat::jinja
