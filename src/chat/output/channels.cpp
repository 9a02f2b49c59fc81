// Reading of one header.
#include "chat/output/channels.hpp"

namespace minfer::chat::output {

namespace {

constexpr size_t kMostHeaderBytes = 512;

// What follows `mark` in `text`, up to whitespace or the next mark; empty where the mark is not there.
std::string_view word_behind(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + mark.size());
  return text.substr(0, text.find_first_of(" \t\n\r<"));
}

}  // namespace

ChannelHeader match_channel_header(std::string_view text, bool final) {
  const size_t end = text.find(kChannelMessage);
  if (end > kMostHeaderBytes) {
    const bool may_come = end == std::string_view::npos && !final && text.size() <= kMostHeaderBytes;
    return {may_come ? Fit::more : Fit::no};
  }
  const std::string_view header = text.substr(0, end);
  if (header.starts_with(kChannelStart) && word_behind(header, kChannelStart) != "assistant") return {Fit::no};
  constexpr std::string_view kNamespace = "functions.";
  std::string_view recipient = word_behind(header, "to=");
  if (recipient.starts_with(kNamespace)) recipient.remove_prefix(kNamespace.size());
  return {.fit = Fit::yes,
          .size = end + kChannelMessage.size(),
          .reasoning = word_behind(header, kChannelMark) == "analysis" && recipient.empty(),
          .recipient = recipient};
}

}  // namespace minfer::chat::output
