// For the tests of output: two tools, and what a parser makes of an answer, as one readable text.
#pragma once

#include <fmt/format.h>

#include <algorithm>

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "chat/output_parser.hpp"

namespace minfer::chat {

inline std::vector<ToolSignature> two_tools() {
  return {{"get_weather", value_from_json(R"({"type": "object", "properties": {"city": {"type": "string"},
             "days": {"type": "integer"}, "exact": {"type": ["boolean", "null"]}}})")},
          {"add", value_from_json(R"({"type": "object", "properties": {"opts": {"type": "object"},
             "note": {"anyOf": [{"type": "string"}, {"type": "null"}]}}})")}};
}

// Joins events of one kind that follow each other.
inline std::vector<OutputEvent> joined(const std::vector<OutputEvent>& events) {
  std::vector<OutputEvent> out;
  for (const OutputEvent& event : events) {
    const bool piece = event.kind != OutputEvent::Kind::call_begin && event.kind != OutputEvent::Kind::call_end &&
                       event.kind != OutputEvent::Kind::call_broken;
    if (piece && !out.empty() && out.back().kind == event.kind && out.back().call == event.call) {
      out.back().text += event.text;
    } else {
      out.push_back(event);
    }
  }
  return out;
}

// "C(content)", "R(reasoning)", "0:name", "A(arguments)", "E" a call's end, "E-" where it was cut, "X(text)" broken.
inline std::string described(const std::vector<OutputEvent>& events) {
  std::string out;
  for (const OutputEvent& event : joined(events)) {
    switch (event.kind) {
      case OutputEvent::Kind::content:
        out += "C(" + event.text + ")";
        break;
      case OutputEvent::Kind::reasoning:
        out += "R(" + event.text + ")";
        break;
      case OutputEvent::Kind::call_begin:
        out += fmt::format("{}:{}", event.call, event.text);
        break;
      case OutputEvent::Kind::arguments:
        out += "A(" + event.text + ")";
        break;
      case OutputEvent::Kind::call_end:
        out += event.cut ? "E-" : "E";
        break;
      case OutputEvent::Kind::call_broken:
        out += "X(" + event.text + ")";
        break;
    }
  }
  return out;
}

// `cuts`: the sizes of the pieces, the last one repeated; characters stay whole.
inline std::vector<OutputEvent> parse_answer(const OutputFormat& format, const std::vector<ToolSignature>& tools,
                                             std::string_view prompt, std::string_view text,
                                             const std::vector<size_t>& cuts = {}) {
  OutputParser parser(format, tools, prompt);
  std::vector<OutputEvent> events;
  for (size_t at = 0, piece = 0; at < text.size(); ++piece) {
    size_t end = cuts.empty() ? text.size() : at + std::max<size_t>(1, cuts[std::min(piece, cuts.size() - 1)]);
    end = std::min(end, text.size());
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    parser.push(text.substr(at, end - at), events);
    at = end;
  }
  parser.finish(events);
  return events;
}

inline const ToolSyntax& syntax_named(std::string_view name) {
  for (const ToolSyntax& row : tool_syntaxes())
    if (row.name == name) return row;
  fail(ErrorCode::internal, "no syntax {}", name);
}

}  // namespace minfer::chat
