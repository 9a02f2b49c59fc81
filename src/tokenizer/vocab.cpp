// Validation of a model file's vocabulary. See vocab.hpp.
#include "tokenizer/vocab.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "base/error.hpp"

namespace minfer::tokenizer {
namespace {

// Tokens that end a turn or a text in published models, whatever the file's EOS is.
constexpr std::string_view kEndTokenTexts[] = {"<|eot_id|>",
                                               "<|im_end|>",
                                               "<|end|>",
                                               "<|return|>",
                                               "<|call|>",
                                               "<end_of_turn>",
                                               "<|endoftext|>",
                                               "<|end_of_text|>",
                                               "<|eom_id|>",
                                               "<EOT>",
                                               "_<EOT>",
                                               "<|end_of_turn|>",
                                               "<|endofturn|>",
                                               "<end_of_utterance>",
                                               "<eos>",
                                               "[EOT]",
                                               "[EOS]",
                                               "<turn|>",
                                               "[e~[",
                                               "<|flush|>",
                                               "<|calls|>",
                                               "<\xEF\xBD\x9C"
                                               "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};

// The names that files have for the kinds.
constexpr std::pair<std::string_view, VocabKind> kKindNames[] = {
    {"gpt2", VocabKind::byte_bpe},       {"gemma4", VocabKind::byte_bpe}, {"whitespace", VocabKind::byte_bpe},
    {"llama", VocabKind::sentencepiece}, {"bert", VocabKind::wordpiece},  {"t5", VocabKind::unigram}};

VocabKind find_kind(std::string_view model) {
  std::string known;
  for (const auto& [name, kind] : kKindNames) {
    if (name == model) return kind;
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", name);
  }
  fail(ErrorCode::unsupported, "the tokenizer model '{}' (tokenizer.ggml.model) is not supported; known are {}", model,
       known);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

int parse_byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return -1;
  const int high = hex_digit(text[3]);
  const int low = hex_digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

TextIndex::TextIndex(size_t max_entries) : slots_(std::bit_ceil(max_entries * 2 + 2), Slot{0, -1}) {}

TokenId TextIndex::insert(const std::vector<std::string_view>& texts, TokenId id, uint64_t hash) {
  const std::string_view text = texts[static_cast<size_t>(id)];
  const auto tag = static_cast<uint32_t>(hash >> 32);
  const size_t mask = slots_.size() - 1;
  for (size_t slot = hash & mask;; slot = (slot + 1) & mask) {
    Slot& entry = slots_[slot];
    if (entry.id < 0) {
      entry = {tag, id};
      return id;
    }
    if (entry.tag == tag && texts[static_cast<size_t>(entry.id)] == text) return entry.id;
  }
}

uint64_t TextIndex::hash(std::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}

TokenId TextIndex::find(const std::vector<std::string_view>& texts, std::string_view text, uint64_t hash) const {
  const auto tag = static_cast<uint32_t>(hash >> 32);
  const size_t mask = slots_.size() - 1;
  for (size_t slot = hash & mask;; slot = (slot + 1) & mask) {
    const Slot& entry = slots_[slot];
    if (entry.id < 0) return -1;
    if (entry.tag == tag && texts[static_cast<size_t>(entry.id)] == text) return entry.id;
  }
}

void Vocab::find_all(std::span<const std::string_view> texts, std::span<TokenId> ids) const {
  constexpr size_t kBlock = 64;
  std::array<uint64_t, kBlock> hashes;
  std::array<TokenId, kBlock> candidates;
  for (size_t begin = 0; begin < texts.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, texts.size() - begin);
    for (size_t index = 0; index < count; ++index) {
      hashes[index] = TextIndex::hash(texts[begin + index]);
      index_.prefetch(hashes[index]);
    }
    for (size_t index = 0; index < count; ++index) {
      candidates[index] = index_.first_id(hashes[index]);
      if (candidates[index] >= 0) __builtin_prefetch(&texts_[static_cast<size_t>(candidates[index])]);
    }
    for (size_t index = 0; index < count; ++index) {
      if (candidates[index] >= 0) __builtin_prefetch(texts_[static_cast<size_t>(candidates[index])].data());
    }
    for (size_t index = 0; index < count; ++index) {
      ids[begin + index] = index_.find(texts_, texts[begin + index], hashes[index]);
    }
  }
}

Vocab::Vocab(VocabData data)
    : data_(std::move(data)),
      kind_(find_kind(data_.model)),
      texts_(std::move(data_.tokens)),
      index_(std::min(texts_.size(), kMaxTokens)) {
  if (texts_.empty()) fail(ErrorCode::invalid_input, "the vocabulary has no tokens");
  if (texts_.size() > kMaxTokens) {
    fail(ErrorCode::invalid_input, "the vocabulary has {} tokens; the limit is {}", texts_.size(), kMaxTokens);
  }
  read_types();
  if (kind_ == VocabKind::sentencepiece) rewrite_space_runs();
  index_texts();
  read_special_ids();
  find_end_tokens();
}

void Vocab::read_types() {
  if (data_.types.empty()) {
    types_.assign(texts_.size(), TokenType::normal);
    return;
  }
  if (data_.types.size() != texts_.size()) {
    fail(ErrorCode::invalid_input, "the vocabulary has {} tokens but {} token types", texts_.size(),
         data_.types.size());
  }
  types_.reserve(texts_.size());
  for (size_t id = 0; id < texts_.size(); ++id) {
    const int32_t type = data_.types[id];
    if (type < static_cast<int32_t>(TokenType::normal) || type > static_cast<int32_t>(TokenType::byte)) {
      fail(ErrorCode::invalid_input, "token {} has type {}; expected 1 to 6", id, type);
    }
    types_.push_back(static_cast<TokenType>(type));
    if (types_.back() == TokenType::byte && parse_byte_token(texts_[id]) < 0) {
      fail(ErrorCode::invalid_input, "token {} is a byte token with the text '{}'; expected '<0x00>' to '<0xFF>'", id,
           texts_[id]);
    }
  }
  data_.types = {};
}

// File writers turn "▁▁" of user-defined tokens into spaces. Runs of spaces get their published text back, because they
// take part in merging (see sentencepiece.hpp); other user-defined texts are compared with the raw text and stay.
void Vocab::rewrite_space_runs() {
  for (size_t id = 0; id < texts_.size(); ++id) {
    const std::string_view text = texts_[id];
    if (types_[id] != TokenType::user_defined || text.empty() || text.size() > kMaxTokenBytes) continue;
    if (text.find_first_not_of(' ') != std::string_view::npos) continue;
    std::string& marked = owned_texts_.emplace_back();
    for (size_t count = 0; count < text.size(); ++count) marked += kSpaceMark;
    texts_[id] = marked;
  }
}

void Vocab::index_texts() {
  constexpr size_t kBlock = 64;
  std::array<uint64_t, kBlock> hashes;
  for (size_t id = 0; id < texts_.size(); ++id) {
    if (id % kBlock == 0) {
      for (size_t i = id; i < std::min(id + kBlock, texts_.size()); ++i) {
        hashes[i - id] = TextIndex::hash(texts_[i]);
        index_.prefetch(hashes[i - id]);
      }
    }
    const std::string_view text = texts_[id];
    if (text.size() > kMaxTokenBytes) {
      fail(ErrorCode::invalid_input, "token {} has {} bytes; the limit is {}", id, text.size(), kMaxTokenBytes);
    }
    if (text.empty()) continue;  // a placeholder: no text can produce it
    const TokenId first = index_.insert(texts_, static_cast<TokenId>(id), hashes[id % kBlock]);
    if (first != static_cast<TokenId>(id)) {
      fail(ErrorCode::invalid_input, "tokens {} and {} have the same text '{}'; each text must be unique", first, id,
           text);
    }
  }
}

std::optional<TokenId> Vocab::checked_id(const std::optional<int64_t>& id, std::string_view name) const {
  if (!id) return std::nullopt;
  if (*id < 0 || static_cast<uint64_t>(*id) >= texts_.size()) {
    fail(ErrorCode::invalid_input, "the {} token id is {}, but the vocabulary has the ids 0 to {}", name, *id,
         texts_.size() - 1);
  }
  return static_cast<TokenId>(*id);
}

std::optional<TokenId> Vocab::id_or_text(const std::optional<int64_t>& id, std::string_view name,
                                         std::string_view text) const {
  if (id) return checked_id(id, name);
  const TokenId found = find(text);
  return found < 0 ? std::nullopt : std::optional(found);
}

void Vocab::read_special_ids() {
  const bool is_wordpiece = kind_ == VocabKind::wordpiece;
  const bool is_unigram = kind_ == VocabKind::unigram;
  bos_ = is_wordpiece ? id_or_text(data_.bos, "BOS", "[CLS]") : checked_id(data_.bos, "BOS");
  eos_ = is_unigram ? id_or_text(data_.eos, "EOS", "</s>") : checked_id(data_.eos, "EOS");
  unk_ = checked_id(data_.unk, "unknown");
  if (is_wordpiece) unk_ = id_or_text(data_.unk, "unknown", "[UNK]");
  if (is_unigram) unk_ = id_or_text(data_.unk, "unknown", "<unk>");
  pad_ = checked_id(data_.pad, "padding");
  sep_ = is_wordpiece ? id_or_text(data_.sep, "separator", "[SEP]") : checked_id(data_.sep, "separator");
  std::sort(data_.lstrip.begin(), data_.lstrip.end());
  std::sort(data_.rstrip.begin(), data_.rstrip.end());
  if (data_.add_bos.value_or(false) && !bos_) {
    fail(ErrorCode::invalid_input, "the file asks to add a BOS token but names no BOS id");
  }
  if (data_.add_eos.value_or(false) && !eos_ && !(is_wordpiece && sep_)) {
    fail(ErrorCode::invalid_input, "the file asks to add an EOS token but names no EOS id");
  }
}

void Vocab::find_end_tokens() {
  const auto add = [&](std::optional<TokenId> id) {
    if (id) end_tokens_.push_back(*id);
  };
  add(eos_);
  add(checked_id(data_.eot, "EOT"));
  add(checked_id(data_.eom, "EOM"));
  for (const std::string_view text : kEndTokenTexts) {
    const TokenId id = find(text);
    if (id < 0) continue;
    end_tokens_.push_back(id);
    // Some files list these as ordinary text; a turn must still be parsed and hidden as the control token that it is.
    TokenType& type = types_[static_cast<size_t>(id)];
    if (type != TokenType::user_defined) type = TokenType::control;
  }
  // Models with a channel format end a message with <|end|> and go on; only <|return|> and <|call|>, or <|flush|> and
  // <|calls|>, end their turn.
  const bool has_channels = find("<|return|>") >= 0 && find("<|call|>") >= 0;
  if (has_channels || (find("<|flush|>") >= 0 && find("<|calls|>") >= 0)) std::erase(end_tokens_, find("<|end|>"));
  std::sort(end_tokens_.begin(), end_tokens_.end());
  end_tokens_.erase(std::unique(end_tokens_.begin(), end_tokens_.end()), end_tokens_.end());
}

void check_scores(const Vocab& vocab) {
  const std::vector<float>& scores = vocab.data().scores;
  if (scores.size() != vocab.size()) {
    fail(ErrorCode::invalid_input, "the vocabulary has {} tokens but {} scores; a '{}' tokenizer needs one for each",
         vocab.size(), scores.size(), vocab.data().model);
  }
  for (size_t id = 0; id < scores.size(); ++id) {
    if (std::isnan(scores[id])) fail(ErrorCode::invalid_input, "token {} has a score that is no number", id);
  }
}

bool Vocab::is_end_of_generation(TokenId id) const {
  return std::binary_search(end_tokens_.begin(), end_tokens_.end(), id);
}

}  // namespace minfer::tokenizer
