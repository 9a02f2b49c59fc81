// Special tokens, segments and the pool of scratch memory. See tokenizer.hpp.
#include "tokenizer/tokenizer.hpp"

#include "base/error.hpp"
#include "tokenizer/stream_decoder.hpp"
#include "tokenizer/utf8.hpp"

namespace minfer::tokenizer {
namespace {

using SpecialTokens = std::vector<std::pair<std::string_view, TokenId>>;

SpecialTokens collect_special(const Vocab& vocab, bool with_control) {
  SpecialTokens tokens;
  for (size_t index = 0; index < vocab.size(); ++index) {
    const auto id = static_cast<TokenId>(index);
    const TokenType type = vocab.type(id);
    const bool control = type == TokenType::control || type == TokenType::unknown;
    if (type == TokenType::user_defined || (with_control && control)) tokens.emplace_back(vocab.text(id), id);
  }
  return tokens;
}

}  // namespace

struct Tokenizer::Scratch {
  std::unique_ptr<ByteBpe::Scratch> byte_bpe;
  std::unique_ptr<SentencePieceBpe::Scratch> sentencepiece;
};

Tokenizer::Tokenizer(VocabData data)
    : vocab_(std::move(data)),
      user_tokens_(collect_special(vocab_, false)),
      special_tokens_(collect_special(vocab_, true)) {
  const VocabData& said = vocab_.data();
  if (vocab_.is_byte_level()) {
    auto model = std::make_unique<ByteBpe>(vocab_);
    add_bos_ = said.add_bos.value_or(model->rule().add_bos && vocab_.bos());
    if (said.add_space_prefix.value_or(false)) {
      fail(ErrorCode::unsupported,
           "the file asks a byte-level tokenizer to add a space before texts; no known model does");
    }
    model_ = std::move(model);
  } else {
    model_ = std::make_unique<SentencePieceBpe>(vocab_);
    add_bos_ = said.add_bos.value_or(vocab_.bos().has_value());
    add_space_prefix_ = said.add_space_prefix.value_or(true);
  }
  add_eos_ = said.add_eos.value_or(false);
}

Tokenizer::~Tokenizer() = default;

std::unique_ptr<Tokenizer::Scratch> Tokenizer::take_scratch() const {
  {
    const std::lock_guard lock(pool_mutex_);
    if (!pool_.empty()) {
      std::unique_ptr<Scratch> scratch = std::move(pool_.back());
      pool_.pop_back();
      return scratch;
    }
  }
  auto scratch = std::make_unique<Scratch>();
  if (vocab_.is_byte_level()) {
    scratch->byte_bpe = std::make_unique<ByteBpe::Scratch>();
  } else {
    scratch->sentencepiece = std::make_unique<SentencePieceBpe::Scratch>();
  }
  return scratch;
}

void Tokenizer::return_scratch(std::unique_ptr<Scratch> scratch) const {
  const std::lock_guard lock(pool_mutex_);
  if (pool_.size() < kMaxIdleScratch) pool_.push_back(std::move(scratch));
}

void Tokenizer::encode_segment(std::string_view text, Scratch& scratch, std::vector<TokenId>& out) const {
  if (text.empty()) return;
  if (const auto* byte_bpe = std::get_if<std::unique_ptr<ByteBpe>>(&model_)) {
    (*byte_bpe)->encode(text, *scratch.byte_bpe, out);
  } else {
    std::get<std::unique_ptr<SentencePieceBpe>>(model_)->encode(text, add_space_prefix_, *scratch.sentencepiece, out);
  }
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > kMaxTextBytes) {
    fail(ErrorCode::invalid_input, "the text has {} bytes; the limit of one call is {}", text.size(), kMaxTextBytes);
  }
  if (const size_t malformed = find_malformed_utf8(text); malformed != std::string_view::npos) {
    fail(ErrorCode::invalid_input, "the text is not UTF-8: byte 0x{:02X} at offset {} belongs to no character",
         static_cast<uint8_t>(text[malformed]), malformed);
  }
  std::unique_ptr<Scratch> scratch = take_scratch();
  std::vector<TokenId> ids;
  if (options.add_special && add_bos_) ids.push_back(*vocab_.bos());
  const SpecialMatcher& matcher = options.parse_special ? special_tokens_ : user_tokens_;
  for (size_t begin = 0; begin < text.size();) {
    const SpecialMatcher::Match match = matcher.find(text, begin);
    encode_segment(text.substr(begin, match.begin - begin), *scratch, ids);
    if (match.size_bytes > 0) ids.push_back(match.id);
    begin = match.begin + match.size_bytes;
  }
  if (options.add_special && add_eos_) ids.push_back(*vocab_.eos());
  return_scratch(std::move(scratch));
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, const DecodeOptions& options) const {
  StreamDecoder decoder(*this, options);
  std::string text;
  for (const TokenId id : ids) text += decoder.push(id);
  text += decoder.finish();
  return text;
}

std::string Tokenizer::token_bytes(TokenId id) const {
  std::string bytes;
  append_token_bytes(id, bytes);
  return bytes;
}

void Tokenizer::append_token_bytes(TokenId id, std::string& out) const {
  if (!vocab_.contains(id)) {
    fail(ErrorCode::invalid_input, "token id {} is out of range; the vocabulary has {} tokens", id, vocab_.size());
  }
  std::visit([&](const auto& model) { model->append_bytes(id, out); }, model_);
}

}  // namespace minfer::tokenizer
