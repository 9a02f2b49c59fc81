// Whole characters from a stream of tokens. See stream_decoder.hpp.
#include "tokenizer/stream_decoder.hpp"

#include "tokenizer/utf8.hpp"

namespace minfer::tokenizer {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, const DecodeOptions& options)
    : tokenizer_(tokenizer), options_(options), strip_space_(options.at_text_start && tokenizer.adds_space_prefix()) {}

std::string StreamDecoder::push(TokenId id) {
  const std::string bytes = tokenizer_.token_bytes(id);
  const TokenType type = tokenizer_.vocab().type(id);
  const bool control = type == TokenType::control || type == TokenType::unknown;
  if (control && !options_.show_control) return {};
  pending_ += bytes;
  if (strip_space_ && !control && !pending_.empty()) {
    strip_space_ = false;
    if (pending_.front() == ' ') pending_.erase(0, 1);
  }
  std::string out;
  drain(out, false);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out;
  drain(out, true);
  strip_space_ = false;
  return out;
}

void StreamDecoder::drain(std::string& out, bool at_end) {
  size_t offset = 0;
  while (offset < pending_.size()) {
    const Utf8Step step = utf8_step(pending_, offset);
    if (step.status == Utf8Status::incomplete && !at_end) break;
    if (step.status == Utf8Status::whole) {
      out.append(pending_, offset, step.size_bytes);
    } else {
      append_utf8(out, kReplacement);
    }
    offset += step.size_bytes;
  }
  pending_.erase(0, offset);
}

}  // namespace minfer::tokenizer
