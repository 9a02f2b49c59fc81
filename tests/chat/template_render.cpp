// What chat templates render to, for template_differential_test.py: reads one JSON command a line from stdin,
// {"template", "variables"}, and writes one answer a line: {"text"}, or {"error", "line", "raised"} where it fails
// (`raised`: the template's own message to raise_exception, else null). The clock stands at Monday 2026-01-05 07:08:09.
#include <fmt/format.h>

#include <charconv>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "chat/template.hpp"

namespace {

using minfer::Error;
using minfer::chat::RaisedError;
using minfer::chat::RenderOptions;
using minfer::chat::Template;
using nlohmann::json;

std::tm fixed_clock() {
  std::tm now{};
  now.tm_year = 126;
  now.tm_mday = 5;
  now.tm_hour = 7;
  now.tm_min = 8;
  now.tm_sec = 9;
  now.tm_wday = 1;
  now.tm_yday = 4;
  return now;
}

// The line that a message names ("chat template t, line 3: ..."); 0: none.
int line_of(const std::string& message) {
  constexpr std::string_view kBefore = ", line ";
  const size_t at = message.find(kBefore);
  int line = 0;
  if (at != std::string::npos) {
    std::from_chars(message.data() + at + kBefore.size(), message.data() + message.size(), line);
  }
  return line;
}

json answer(const json& command) {
  RenderOptions options;
  options.clock = fixed_clock;
  const auto failure = [](const Error& error, const json& raised) {
    return json{{"error", error.what()}, {"line", line_of(error.what())}, {"raised", raised}};
  };
  try {
    const auto variables = minfer::chat::value_from_json(command.at("variables").get<std::string>());
    return json{{"text", Template::parse(command.at("template").get<std::string>(), "t").render(variables, options)}};
  } catch (const RaisedError& error) {
    return failure(error, error.template_message());
  } catch (const Error& error) {
    return failure(error, nullptr);
  }
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << answer(json::parse(line)).dump(-1, ' ', false, json::error_handler_t::replace) << "\n";
  }
  return 0;
}
