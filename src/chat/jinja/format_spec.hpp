// Layout of one formatted value: sign, padding, grouping. Shared by '%' formatting and str.format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "chat/jinja/interpreter.hpp"

namespace minfer::chat::jinja {

constexpr int64_t kMaxFormatWidth = 1 << 20;
constexpr int64_t kMaxFormatPrecision = 1000;

// Pads `text` to `width` code points with `fill`. align: '<', '>', '^', or '=' (padding behind the sign of length
// `sign`).
std::string pad(Interpreter& in, std::string text, int64_t width, char align, std::string_view fill, size_t sign);

// Digits of `value` in base 2, 8, 10 or 16, without a sign.
std::string integer_digits(int64_t value, int base, bool upper);

// ascii() of what repr() gave: code points beyond ASCII as \x, \u or \U escapes.
std::string ascii_text(std::string_view text);

}  // namespace minfer::chat::jinja
