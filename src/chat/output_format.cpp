// Detection by what stands in the template's text. The tables are small and looked through once a model.
#include "chat/output_format.hpp"

#include <algorithm>
#include <array>

#include "chat/output/channels.hpp"
#include "chat/output/text_match.hpp"

namespace minfer::chat {

namespace {

constexpr ReasoningTags kReasoningTags[] = {
    {"<|START_THINKING|>", "<|END_THINKING|>"},                    // Command R7B, Command A
    {"[THINK]", "[/THINK]"},                                       // Magistral, Ministral 3
    {"<|channel>thought\n", "<channel|>"},                         // Gemma 4
    {"<mm:think>", "</mm:think>"},                                 // MiniMax M3
    {"<seed:think>", "</seed:think>"},                             // Seed-OSS
    {"Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]"},  // Apriel 1.6
    {"<think>", "</think>"},                                       // Qwen 3, DeepSeek, GLM and most others
    {"<thinking>", "</thinking>"},                                 // Apriel 1.5
};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_of(std::string_view source, const ToolSyntax& row) {
  return std::all_of(row.signs.begin(), row.signs.end(),
                     [&](std::string_view sign) { return sign.empty() || contains(source, sign); });
}

// Line breaks stand in a template's text as \n.
bool mentions(std::string_view source, const ReasoningTags& tags) {
  return contains(source, output::trimmed(tags.open)) && contains(source, tags.close);
}

// Whether one of the marks in `piece`, <...> or [...], is a control token.
bool has_control(std::string_view piece, const std::function<bool(std::string_view)>& is_control) {
  for (size_t at = piece.find_first_of("<["); at < piece.size(); at = piece.find_first_of("<[", at + 1)) {
    const size_t end = piece.find(piece[at] == '<' ? '>' : ']', at);
    if (end != std::string_view::npos && is_control(piece.substr(at, end + 1 - at))) return true;
  }
  return false;
}

bool needs_control(const OutputFormat& format, const std::function<bool(std::string_view)>& is_control) {
  const ToolSyntax& row = *format.tools;
  const auto is_seen = [&](std::string_view piece) { return has_control(piece, is_control); };
  const auto signs = [&](std::string_view sign) { return !sign.empty() && is_control(sign); };
  const std::array pieces = {row.prefix, row.call_begin, row.name_end, row.call_end, row.separator, row.suffix};
  if (std::any_of(pieces.begin(), pieces.end(), is_seen)) return true;
  if (std::any_of(row.signs.begin(), row.signs.end(), signs)) return true;
  if (row.bare && is_control("<|python_tag|>")) return true;
  if (row.arguments == ArgumentStyle::braces && is_control("<|\"|>")) return true;
  return format.reasoning != nullptr && (is_seen(format.reasoning->open) || is_seen(format.reasoning->close));
}

}  // namespace

OutputFormat detect_output_format(std::string_view template_source,
                                  const std::function<bool(std::string_view)>& is_control) {
  OutputFormat format;
  const auto rows = tool_syntaxes();
  const auto row = std::find_if(rows.begin(), rows.end() - 1,
                                [&](const ToolSyntax& syntax) { return is_of(template_source, syntax); });
  format.tools = &*row;  // the last where none fits: the generic one
  if (!row->channels) {
    const auto* tags = std::find_if(std::begin(kReasoningTags), std::end(kReasoningTags),
                                    [&](const ReasoningTags& pair) { return mentions(template_source, pair); });
    if (tags != std::end(kReasoningTags)) format.reasoning = tags;
  }
  format.template_knows_tools = contains(template_source, "tools");
  format.show_control = needs_control(format, is_control);
  return format;
}

bool begins_in_reasoning(const OutputFormat& format, std::string_view prompt) {
  const std::string_view end = output::trimmed(prompt);
  if (!format.tools->channels)
    return format.reasoning != nullptr && end.ends_with(output::trimmed(format.reasoning->open));
  const size_t begin = end.rfind(output::kChannelMark);
  if (begin == std::string_view::npos) return false;
  const output::ChannelHeader header = output::match_channel_header(end.substr(begin), true);
  return header.fit == output::Fit::yes && header.reasoning && begin + header.size == end.size();
}

}  // namespace minfer::chat
