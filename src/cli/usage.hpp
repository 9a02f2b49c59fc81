// What the command line says about itself: help pages in short lines, option values checked with plain messages, and
// the parser's errors put as one sentence. CLI11 does the parsing; its own wording is for programmers.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace minfer::cli {

// Option value checks. The message names what was given and what is expected.
CLI::Validator whole_number(int64_t least, int64_t most);
CLI::Validator decimal_number();
// A number of bytes as parse_bytes takes it.
CLI::Validator byte_size();
// Whole numbers from `least`, which is 0 or more, with a comma between them. split_numbers gives them, and -1 for a
// part that is none.
CLI::Validator number_list(int64_t least, int64_t most);
std::vector<int64_t> split_numbers(std::string_view text);
CLI::Validator one_of(std::vector<std::string> words);
CLI::Validator not_empty();

// Bytes of a whole number with or without a unit: 5000, 4G (10^9), 512MiB (2^20); K, M, G, T, each also with B or iB,
// letter case ignored. nullopt for anything else, and beyond 2^62.
std::optional<int64_t> parse_bytes(std::string_view text);

// One line an option: names, placeholder, description, default.
std::shared_ptr<CLI::FormatterBase> help_formatter();

// What is wrong with the arguments, and how to see the right ones.
std::string parse_error_text(const CLI::App& app, const CLI::ParseError& error);

}  // namespace minfer::cli
