// Whole characters from a stream of tokens. See stream_decoder.hpp.
#include "tokenizer/stream_decoder.hpp"

#include "tokenizer/utf8.hpp"

namespace minfer::tokenizer {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, const DecodeOptions& options)
    : tokenizer_(tokenizer), options_(options), strip_space_(options.at_text_start && tokenizer.adds_space_prefix()) {}

std::string_view StreamDecoder::push(TokenId id) {
  const size_t before = pending_.size();
  tokenizer_.append_token_bytes(id, pending_);
  const TokenType type = tokenizer_.vocab().type(id);
  const bool control = type == TokenType::control || type == TokenType::unknown;
  if (control && !options_.show_control) {
    pending_.resize(before);
    return {};
  }
  if (strip_space_ && !control && !pending_.empty()) {
    strip_space_ = false;
    if (pending_.front() == ' ') pending_.erase(0, 1);
  }
  return drain(false);
}

std::string_view StreamDecoder::finish() {
  strip_space_ = false;
  return drain(true);
}

std::string_view StreamDecoder::drain(bool at_end) {
  shown_.clear();
  size_t offset = 0;
  while (offset < pending_.size()) {
    const Utf8Step step = utf8_step(pending_, offset);
    if (step.status == Utf8Status::incomplete && !at_end) break;
    if (step.status == Utf8Status::whole) {
      shown_.append(pending_, offset, step.size_bytes);
    } else {
      append_utf8(shown_, kReplacement);
    }
    offset += step.size_bytes;
  }
  pending_.erase(0, offset);
  return shown_;
}

}  // namespace minfer::tokenizer
