// Python's string operations on UTF-8 text: everything counts code points, whitespace is Python's set, case mapping is
// Unicode's full mapping (ICU). Inputs are valid UTF-8; so are the results. Oracle: CPython 3.11.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace minfer::chat::jinja {

// The code point at `at`, which moves behind it.
char32_t next_code_point(std::string_view text, size_t& at);
size_t count_code_points(std::string_view text);
// The byte offset of code point `index`, or the size where the text is shorter.
size_t byte_offset(std::string_view text, size_t index);

bool is_space(char32_t code);      // str.isspace, and \s of Python's regular expressions
bool is_printable(char32_t code);  // str.isprintable
bool is_word(char32_t code);       // \w of Python's regular expressions

// str.strip and its halves; `chars` empty: whitespace.
enum class Side { both, left, right };
std::string_view strip(std::string_view text, std::optional<std::string_view> chars, Side side);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_title(std::string_view text);    // str.title
std::string capitalize(std::string_view text);  // str.capitalize
std::string swap_case(std::string_view text);
std::string fold_case(std::string_view text);

// str.split and str.rsplit: `separator` empty means runs of whitespace; max_split below 0: no limit.
std::vector<std::string_view> split(std::string_view text, std::optional<std::string_view> separator,
                                    int64_t max_split);
std::vector<std::string_view> split_right(std::string_view text, std::optional<std::string_view> separator,
                                          int64_t max_split);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);
// str.replace; max_count below 0: all. `charge` is told the size of the result before it is built.
std::string replace(std::string_view text, std::string_view old_text, std::string_view new_text, int64_t max_count,
                    const std::function<void(size_t bytes)>& charge);

// repr(str): quoted and escaped as Python prints it inside containers.
std::string quote(std::string_view text);
// repr(float): the shortest digits that read back the same.
std::string float_text(double value);
// Digits of a float in Python's '%.{precision}f' / 'e' / 'g'.
std::string format_float(double value, char type, int precision, bool alternate);

}  // namespace minfer::chat::jinja
