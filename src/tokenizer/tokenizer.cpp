// Special tokens, segments and the pool of scratch memory. See tokenizer.hpp.
#include "tokenizer/tokenizer.hpp"

#include <unicode/uchar.h>

#include <algorithm>

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

size_t leading_space_bytes(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Step step = utf8_step(text, at);
    if (!u_isUWhiteSpace(static_cast<UChar32>(step.character))) break;
    at += step.size_bytes;
  }
  return at;
}

size_t trailing_space_bytes(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
    if (!u_isUWhiteSpace(static_cast<UChar32>(utf8_step(text, begin).character))) break;
    end = begin;
  }
  return text.size() - end;
}

}  // namespace

struct Tokenizer::Scratch {
  // Of the model's kind.
  std::variant<ByteBpe::Scratch, SentencePieceBpe::Scratch, WordPiece::Scratch, Unigram::Scratch> of;
};

Tokenizer::Tokenizer(VocabData data)
    : vocab_(std::move(data)),
      user_tokens_(collect_special(vocab_, false)),
      special_tokens_(collect_special(vocab_, true)) {
  switch (vocab_.kind()) {
    case VocabKind::byte_bpe:
      model_ = std::make_unique<ByteBpe>(vocab_);
      break;
    case VocabKind::sentencepiece:
      model_ = std::make_unique<SentencePieceBpe>(vocab_);
      break;
    case VocabKind::wordpiece:
      model_ = std::make_unique<WordPiece>(vocab_);
      break;
    case VocabKind::unigram:
      model_ = std::make_unique<Unigram>(vocab_);
      break;
  }
  set_defaults();
  most_token_bytes_ = find_most_token_bytes();
}

// What the file leaves unsaid is what files of the kind mean.
void Tokenizer::set_defaults() {
  const VocabData& said = vocab_.data();
  bool add_eos = said.add_eos.value_or(false);
  std::optional<TokenId> end = vocab_.eos();
  switch (vocab_.kind()) {
    case VocabKind::byte_bpe:
      add_bos_ = said.add_bos.value_or(std::get<std::unique_ptr<ByteBpe>>(model_)->rule().add_bos && vocab_.bos());
      if (said.add_space_prefix.value_or(false)) {
        fail(ErrorCode::unsupported,
             "the file asks a byte-level tokenizer to add a space before texts; no known model does");
      }
      break;
    case VocabKind::sentencepiece:
      add_bos_ = said.add_bos.value_or(vocab_.bos().has_value());
      add_space_prefix_ = said.add_space_prefix.value_or(true);
      break;
    case VocabKind::wordpiece:
      add_bos_ = said.add_bos.value_or(vocab_.bos().has_value());
      add_eos = said.add_eos.value_or(true) || said.add_sep.value_or(false);
      if (vocab_.sep()) end = vocab_.sep();
      add_space_prefix_ = true;
      break;
    case VocabKind::unigram:
      add_bos_ = said.add_bos.value_or(false);
      add_eos = said.add_eos.value_or(true);
      add_space_prefix_ = said.add_space_prefix.value_or(true);
      break;
  }
  if (add_eos) end_ = end;
}

size_t Tokenizer::find_most_token_bytes() const {
  const VocabData& said = vocab_.data();
  if (!said.lstrip.empty() || !said.rstrip.empty()) return 0;  // they take any amount of white space
  const auto* bytes = std::get_if<std::unique_ptr<ByteBpe>>(&model_);
  size_t shrink = vocab_.kind() == VocabKind::sentencepiece ? 1 : 0;  // whose "▁" is longer than a space
  if (bytes != nullptr) shrink = (*bytes)->most_shrink();
  size_t most = 4;  // of a character that becomes the unknown token
  for (size_t id = 0; id < vocab_.size(); ++id) most = std::max(most, vocab_.text(static_cast<TokenId>(id)).size());
  return most * shrink;
}

size_t Tokenizer::least_tokens(std::string_view text) const {
  if (most_token_bytes_ == 0) return 0;
  const auto* bytes = std::get_if<std::unique_ptr<ByteBpe>>(&model_);
  const size_t kept = bytes != nullptr ? (*bytes)->kept_bytes(text) : text.size();
  return (kept + most_token_bytes_ - 1) / most_token_bytes_;
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
  switch (vocab_.kind()) {
    case VocabKind::byte_bpe:
      break;
    case VocabKind::sentencepiece:
      scratch->of.emplace<SentencePieceBpe::Scratch>();
      break;
    case VocabKind::wordpiece:
      scratch->of.emplace<WordPiece::Scratch>();
      break;
    case VocabKind::unigram:
      scratch->of.emplace<Unigram::Scratch>();
      break;
  }
  return scratch;
}

void Tokenizer::return_scratch(std::unique_ptr<Scratch> scratch) const {
  const std::lock_guard lock(pool_mutex_);
  if (pool_.size() < kMaxIdleScratch) pool_.push_back(std::move(scratch));
}

void Tokenizer::encode_segment(std::string_view text, Scratch& scratch, std::vector<TokenId>& out) const {
  if (text.empty()) return;
  switch (vocab_.kind()) {
    case VocabKind::byte_bpe:
      std::get<std::unique_ptr<ByteBpe>>(model_)->encode(text, std::get<ByteBpe::Scratch>(scratch.of), out);
      break;
    case VocabKind::sentencepiece:
      std::get<std::unique_ptr<SentencePieceBpe>>(model_)->encode(text, add_space_prefix_,
                                                                  std::get<SentencePieceBpe::Scratch>(scratch.of), out);
      break;
    case VocabKind::wordpiece:
      std::get<std::unique_ptr<WordPiece>>(model_)->encode(text, std::get<WordPiece::Scratch>(scratch.of), out);
      break;
    case VocabKind::unigram:
      std::get<std::unique_ptr<Unigram>>(model_)->encode(text, add_space_prefix_,
                                                         std::get<Unigram::Scratch>(scratch.of), out);
      break;
  }
}

// The text between two special tokens (-1: none) without the white space that they take.
std::string_view Tokenizer::without_stripped(std::string_view text, TokenId before, TokenId behind) const {
  const VocabData& said = vocab_.data();
  const auto has = [](const std::vector<TokenId>& ids, TokenId id) {
    return std::binary_search(ids.begin(), ids.end(), id);
  };
  if (before >= 0 && has(said.rstrip, before)) text.remove_prefix(leading_space_bytes(text));
  if (behind >= 0 && has(said.lstrip, behind)) text.remove_suffix(trailing_space_bytes(text));
  return text;
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
  TokenId before = -1;
  for (size_t begin = 0; begin < text.size();) {
    const SpecialMatcher::Match match = matcher.find(text, begin);
    const std::string_view segment = text.substr(begin, match.begin - begin);
    encode_segment(without_stripped(segment, before, match.id), *scratch, ids);
    if (match.size_bytes > 0) ids.push_back(match.id);
    before = match.id;
    begin = match.begin + match.size_bytes;
  }
  if (options.add_special && end_) ids.push_back(*end_);
  if (text.size() <= kMaxKeptTextBytes) return_scratch(std::move(scratch));
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
