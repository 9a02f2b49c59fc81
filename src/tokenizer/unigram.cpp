// Unigram. See unigram.hpp.
#include "tokenizer/unigram.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "tokenizer/sentencepiece.hpp"
#include "tokenizer/utf8.hpp"

namespace minfer::tokenizer {
namespace {

constexpr TokenId kUnknown = -1;
constexpr TokenId kNoCover = -2;

// Tokens that text can have. User-defined ones are cut out before.
std::vector<std::pair<std::string_view, TokenId>> text_tokens(const Vocab& vocab) {
  std::vector<std::pair<std::string_view, TokenId>> tokens;
  for (size_t index = 0; index < vocab.size(); ++index) {
    const auto id = static_cast<TokenId>(index);
    if (vocab.type(id) != TokenType::normal) continue;
    const std::string_view text = vocab.text(id);
    if (text.size() > Unigram::kMaxPieceBytes) {
      fail(ErrorCode::invalid_input, "token {} has {} bytes; a token of a 't5' tokenizer has at most {}", id,
           text.size(), Unigram::kMaxPieceBytes);
    }
    tokens.emplace_back(text, id);
  }
  return tokens;
}

}  // namespace

Unigram::Unigram(const Vocab& vocab)
    : vocab_(vocab),
      charsmap_(vocab.data().charsmap),
      trie_(text_tokens(vocab)),
      remove_extra_spaces_(vocab.data().remove_extra_whitespaces.value_or(false)) {
  const std::vector<float>& scores = vocab.data().scores;
  check_scores(vocab);
  byte_ids_.fill(-1);
  double least = 0;
  for (size_t index = 0; index < vocab.size(); ++index) {
    const auto id = static_cast<TokenId>(index);
    if (vocab.type(id) == TokenType::byte) byte_ids_[static_cast<size_t>(parse_byte_token(vocab.text(id)))] = id;
    if (vocab.type(id) != TokenType::normal) continue;
    if (std::isinf(scores[index])) fail(ErrorCode::invalid_input, "token {} has an infinite score", id);
    least = std::min<double>(least, scores[index]);
    cuts_.add(vocab.text(id));
  }
  cuts_.finish();
  unknown_score_ = least - kUnknownPenalty;
}

void Unigram::normalize(std::string_view text, bool with_space, std::string& marked) const {
  marked.clear();
  if (with_space) marked += kSpaceMark;
  bool after_space = remove_extra_spaces_;  // a "▁" of the text itself is none
  const auto add = [&](std::string_view part) {
    for (const char c : part) {
      if (c != ' ') {
        marked += c;
      } else if (!after_space) {
        marked += kSpaceMark;
      }
      after_space = remove_extra_spaces_ && c == ' ';
    }
  };
  for (size_t at = 0; at < text.size();) {
    const Charsmap::Replacement found = charsmap_.find(text, at);
    const size_t size = found.size_bytes > 0 ? found.size_bytes : utf8_step(text, at).size_bytes;
    add(found.size_bytes > 0 ? found.text : text.substr(at, size));
    at += size;
  }
  if (!remove_extra_spaces_) return;
  // As published: with spaces at the end goes every "▁" there, that which was put first too where nothing else is left.
  while (marked.ends_with(kSpaceMark)) marked.resize(marked.size() - kSpaceMark.size());
}

void Unigram::encode(std::string_view text, bool with_space, Scratch& scratch, std::vector<TokenId>& out) const {
  normalize(text, with_space, scratch.marked);
  cuts_.for_each_word(scratch.marked, [&](std::string_view word) { encode_word(word, scratch, out); });
}

void Unigram::find_best(std::string_view word, Scratch& scratch) const {
  auto& best = scratch.best;
  best.assign(word.size() + 1, Best{-std::numeric_limits<double>::infinity(), 0, kNoCover});
  best[0] = {0, 0, kNoCover};
  const std::vector<float>& scores = vocab_.data().scores;
  for (size_t at = 0; at < word.size();) {
    const size_t character = utf8_step(word, at).size_bytes;
    const double before = best[at].score;
    const auto offer = [&](TokenId id, size_t size, double score) {
      Best& champion = best[at + size];
      if (score > champion.score) champion = {score, static_cast<uint32_t>(at), id};
    };
    bool has_character = false;
    trie_.for_each_prefix(word.substr(at), [&](TokenId id, size_t size) {
      has_character = has_character || size == character;
      offer(id, size, before + static_cast<double>(scores[static_cast<size_t>(id)]));
    });
    if (!has_character) offer(kUnknown, character, before + unknown_score_);
    at += character;
  }
}

void Unigram::encode_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  scratch.cache.encode(word, out, [&] { encode_new_word(word, scratch, out); });
}

void Unigram::encode_new_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  find_best(word, scratch);
  scratch.ends.clear();
  for (auto end = static_cast<uint32_t>(word.size()); end > 0; end = scratch.best[end].begin) {
    scratch.ends.push_back(end);
  }
  size_t unknown_begin = std::string_view::npos;  // of the run of unknown characters that goes on
  const auto end_unknown = [&](size_t end) {
    if (unknown_begin != std::string_view::npos) append_unknown(word.substr(unknown_begin, end - unknown_begin), out);
    unknown_begin = std::string_view::npos;
  };
  for (auto end = scratch.ends.rbegin(); end != scratch.ends.rend(); ++end) {
    const Best& token = scratch.best[*end];
    if (token.id == kUnknown) {
      unknown_begin = std::min<size_t>(unknown_begin, token.begin);
    } else {
      end_unknown(token.begin);
      out.push_back(token.id);
    }
  }
  end_unknown(word.size());
}

void Unigram::append_unknown(std::string_view text, std::vector<TokenId>& out) const {
  const bool has_bytes =
      std::all_of(text.begin(), text.end(), [this](char c) { return byte_ids_[static_cast<uint8_t>(c)] >= 0; });
  if (has_bytes) {
    for (const char c : text) out.push_back(byte_ids_[static_cast<uint8_t>(c)]);
  } else if (vocab_.unk()) {
    out.push_back(*vocab_.unk());
  } else {
    fail(ErrorCode::invalid_input,
         "the text '{}' has no token, and the vocabulary has neither tokens for its bytes nor an unknown token", text);
  }
}

void Unigram::append_bytes(TokenId id, std::string& out) const {
  append_sentencepiece_bytes(vocab_, id, out);
}

}  // namespace minfer::tokenizer
