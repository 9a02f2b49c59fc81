// Help pages and messages. See usage.hpp.
// The placeholders and defaults stand in the help once; limits stand in the messages.
#include "cli/usage.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace minfer::cli {
namespace {

constexpr size_t kOptionColumn = 32;

// The whole text as a number, or false.
template <class Number>
bool parse_number(const std::string& text, Number& number) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter() {
    column_width(kOptionColumn);
    label("SUBCOMMAND", "COMMAND");
    label("Positionals", "Arguments");
  }

  // Without the empty lines that groups leave between them.
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    return CLI::detail::find_and_replace(CLI::Formatter::make_help(app, std::move(name), mode), "\n\n\n", "\n\n");
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_positional() || option->get_type_size() == 0) return {};
    return " " + option->get_type_name();
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    const std::string preset = option->get_default_str();
    return option->get_description() + (preset.empty() ? "" : fmt::format(" (default {})", preset));
  }

  std::string make_option_usage(const CLI::Option* option) const override {
    const std::string name = make_option_name(option, true);
    const std::string shown = option->get_expected_max() > 1 ? name + "..." : name;
    return option->get_required() ? shown : "[" + shown + "]";
  }
};

// The command that the arguments name, or nothing.
const CLI::App* chosen_command(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? nullptr : chosen[0];
}

std::string unknown_command_text(const CLI::App& app, const std::string& word) {
  std::string known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  return word.empty() ? "no command given; there are " + known
                      : fmt::format("no command is called '{}'; there are {}", word, known);
}

// A word with a dash in front is the likelier mistake: the words after an unknown option are only its consequence.
std::string leftover_text(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word.size() > 1 && word[0] == '-') {
      return fmt::format("no option is called '{}'; text that starts with a dash goes after --", word);
    }
  }
  return fmt::format("'{}' is one argument too many; put a text with blanks in quotes", words.front());
}

}  // namespace

CLI::Validator whole_number(int64_t least, int64_t most) {
  const auto check = [least, most](std::string& text) {
    int64_t number = 0;
    if (parse_number(text, number) && number >= least && number <= most) return std::string();
    return fmt::format("'{}' is not a whole number from {} to {}", text, least, most);
  };
  return CLI::Validator(check, "");
}

CLI::Validator decimal_number() {
  const auto check = [](std::string& text) {
    double number = 0;
    if (parse_number(text, number) && std::isfinite(number)) return std::string();
    return fmt::format("'{}' is not a number", text);
  };
  return CLI::Validator(check, "");
}

std::optional<int64_t> parse_bytes(std::string_view text) {
  constexpr int64_t kMostBytes = int64_t{1} << 62;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 1) return std::nullopt;
  std::string unit(end, text.data() + text.size());
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  if (unit.ends_with('b')) unit.pop_back();
  const bool binary = unit.ends_with('i');
  if (binary) unit.pop_back();
  const size_t power = unit.empty() ? 0 : std::string_view("kmgt").find(unit) + 1;
  if (unit.size() > 1 || (!unit.empty() && power == 0) || (unit.empty() && binary)) return std::nullopt;
  for (size_t i = 0; i < power; ++i) {
    if (__builtin_mul_overflow(number, binary ? 1024 : 1000, &number)) return std::nullopt;
  }
  return number <= kMostBytes ? std::optional(number) : std::nullopt;
}

CLI::Validator byte_size() {
  const auto check = [](std::string& text) {
    if (parse_bytes(text)) return std::string();
    return fmt::format("'{}' is no number of bytes, such as 5000000, 4G or 512MiB", text);
  };
  return CLI::Validator(check, "");
}

CLI::Validator number_list(int64_t least, int64_t most) {
  const auto check = [least, most](std::string& text) {
    for (const int64_t number : split_numbers(text)) {
      if (number < least || number > most) {
        return fmt::format("'{}' is not a list such as 16,32 of whole numbers from {} to {}", text, least, most);
      }
    }
    return std::string();
  };
  return CLI::Validator(check, "");
}

std::vector<int64_t> split_numbers(std::string_view text) {
  std::vector<int64_t> numbers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    int64_t number = 0;
    const bool is_number = parse_number(std::string(text.substr(begin, end - begin)), number);
    numbers.push_back(is_number ? number : -1);
    begin = end + 1;
  }
  return numbers;
}

CLI::Validator one_of(std::vector<std::string> words) {
  const auto check = [words = std::move(words)](std::string& text) {
    if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
    return fmt::format("'{}' is none of {}", text, fmt::join(words, ", "));
  };
  return CLI::Validator(check, "");
}

CLI::Validator not_empty() {
  return CLI::Validator(
      [](std::string& text) { return text.empty() ? std::string("the text is empty") : std::string(); }, "");
}

std::shared_ptr<CLI::FormatterBase> help_formatter() {
  return std::make_shared<HelpFormatter>();
}

std::string parse_error_text(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = chosen_command(app);
  const std::vector<std::string> left = (command == nullptr ? app : *command).remaining();
  const std::string help = fmt::format("see `minfer{}{} --help`", command == nullptr ? "" : " ",
                                       command == nullptr ? "" : command->get_name());
  std::string what = error.what();
  if (command == nullptr) {
    what = unknown_command_text(app, left.empty() ? "" : left.front());
    if (!left.empty() && left.front()[0] == '-') what = leftover_text(left);
  } else if (!left.empty()) {
    what = leftover_text(left);
  } else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const bool repeated = what.find("At Most") != std::string::npos;
    what = what.substr(0, what.find(':')) + (repeated ? " may be given once only" : " needs a value");
  }
  return what + "; " + help;
}

}  // namespace minfer::cli
