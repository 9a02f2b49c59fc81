// The channels of gpt-oss: an answer is a row of messages, each behind a header that names its channel and, for a call,
// the tool:  [<|start|>assistant] [ to=functions.NAME] <|channel|>CHANNEL [ to=functions.NAME] [<|constrain|>json]
// <|message|>.  Source: https://github.com/openai/harmony (docs/format.md). Pure functions.
#pragma once

#include <string_view>

#include "chat/output/text_match.hpp"

namespace minfer::chat::output {

constexpr std::string_view kChannelStart = "<|start|>";
constexpr std::string_view kChannelMark = "<|channel|>";
constexpr std::string_view kChannelMessage = "<|message|>";
// What ends a message.
constexpr std::string_view kChannelEnds[] = {"<|end|>", "<|return|>", "<|call|>"};

struct ChannelHeader {
  Fit fit = Fit::no;
  size_t size = 0;
  bool reasoning = false;
  std::string_view recipient = {};  // the tool's name; empty: none
};

// `text` begins with kChannelStart or kChannelMark.
ChannelHeader match_channel_header(std::string_view text, bool final);

}  // namespace minfer::chat::output
