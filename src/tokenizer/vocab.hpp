// The vocabulary: token texts, types and the ids with a meaning (BOS, EOS, ...), validated once at construction, and
// the index from text to id. VocabData is what a model file says, untouched; the model room fills it from file
// metadata. This room knows no file format. Token texts are views: whoever fills VocabData keeps the file mapped for as
// long as the Vocab lives. Immutable after construction; any thread may read. Limits: kMaxTokens tokens, kMaxTokenBytes
// bytes a token.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace minfer::tokenizer {

using TokenId = int32_t;

constexpr size_t kMaxTokens = size_t{1} << 24;
constexpr size_t kMaxTokenBytes = size_t{1} << 16;

// The values of the file format.
enum class TokenType : uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

// byte_bpe: merges, and a pre-tokenizer rule ("gpt2"; "gemma4" and "whitespace" bring the rule of their name).
// sentencepiece: BPE by scores ("llama"). wordpiece: the longest token first ("bert"). unigram: the best sum of scores
// ("t5").
enum class VocabKind : uint8_t { byte_bpe, sentencepiece, wordpiece, unigram };

struct VocabData {
  std::string model;                     // the file's word for the kind: see VocabKind
  std::string pre;                       // name of the pre-tokenizer rule; byte_bpe only
  std::vector<std::string_view> tokens;  // text of each id
  std::vector<float> scores;             // one a token; sentencepiece and unigram
  std::vector<int32_t> types;            // one a token, values of TokenType; empty: all normal
  std::vector<std::string_view> merges;  // "left right", best first; byte_bpe only
  std::string_view charsmap;             // SentencePiece's compiled normalizer (charsmap.hpp); unigram only
  std::vector<TokenId> lstrip, rstrip;   // special tokens that take the white space before, behind them
  std::optional<int64_t> bos, eos, eot, eom, unk, pad, sep;
  // Empty: the kind's default.
  std::optional<bool> add_bos, add_eos, add_sep, add_space_prefix, remove_extra_whitespaces, lowercase, strip_accents;
};

// Open-addressing index from text to id; texts live in the vector that the owner passes to each call.
class TextIndex {
 public:
  explicit TextIndex(size_t max_entries);
  // Adds texts[id]; returns id, or the id that has the same text already.
  TokenId insert(const std::vector<std::string_view>& texts, TokenId id, uint64_t hash);
  // The id of `text`, or -1.
  TokenId find(const std::vector<std::string_view>& texts, std::string_view text) const {
    return find(texts, text, hash(text));
  }
  // The same in steps, for many texts: their hashes; what they need of memory; then each.
  static uint64_t hash(std::string_view text);
  void prefetch(uint64_t hash) const { __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]); }
  // The id that `hash` leads to first, or -1.
  TokenId first_id(uint64_t hash) const { return slots_[hash & (slots_.size() - 1)].id; }
  TokenId find(const std::vector<std::string_view>& texts, std::string_view text, uint64_t hash) const;

 private:
  struct Slot {
    uint32_t tag;  // upper half of the hash
    TokenId id;    // -1: empty
  };
  std::vector<Slot> slots_;  // a power of two, at most half full
};

class Vocab {
 public:
  // Errors: invalid_input naming the token, array or id at fault; unsupported for an unknown model kind.
  explicit Vocab(VocabData data);

  size_t size() const { return texts_.size(); }
  bool contains(TokenId id) const { return id >= 0 && static_cast<size_t>(id) < texts_.size(); }
  // The stored text of a token (byte-level alphabet or "▁" for spaces). id must be in range.
  std::string_view text(TokenId id) const { return texts_[static_cast<size_t>(id)]; }
  TokenType type(TokenId id) const { return types_[static_cast<size_t>(id)]; }
  // The id whose stored text is `text`, or -1.
  TokenId find(std::string_view text) const { return index_.find(texts_, text); }
  // The same for many texts, which takes a fraction of the time: memory is asked for ahead. `ids` is as long as
  // `texts`.
  void find_all(std::span<const std::string_view> texts, std::span<TokenId> ids) const;

  // True for EOS, EOT, EOM and the tokens that published models end a turn or a text with.
  bool is_end_of_generation(TokenId id) const;
  std::optional<TokenId> bos() const { return bos_; }
  std::optional<TokenId> eos() const { return eos_; }
  std::optional<TokenId> unk() const { return unk_; }
  std::optional<TokenId> pad() const { return pad_; }
  std::optional<TokenId> sep() const { return sep_; }

  VocabKind kind() const { return kind_; }
  const VocabData& data() const { return data_; }

 private:
  void read_types();
  void index_texts();
  void rewrite_space_runs();
  void read_special_ids();
  void find_end_tokens();
  std::optional<TokenId> checked_id(const std::optional<int64_t>& id, std::string_view name) const;
  // `id`, or where the file has none the token `text` that files of this kind mean.
  std::optional<TokenId> id_or_text(const std::optional<int64_t>& id, std::string_view name,
                                    std::string_view text) const;

  VocabData data_;  // tokens and types moved out
  VocabKind kind_;
  std::vector<std::string_view> texts_;
  std::vector<TokenType> types_;
  std::deque<std::string> owned_texts_;  // texts that differ from the file's
  TextIndex index_;
  std::optional<TokenId> bos_, eos_, unk_, pad_, sep_;
  std::vector<TokenId> end_tokens_;  // sorted
};

// Errors: invalid_input where the scores are not one a token, or one is no number.
void check_scores(const Vocab& vocab);

// The byte of a byte token's text "<0x0A>" (two upper-case hexadecimal digits), or -1 where the text is malformed.
int parse_byte_token(std::string_view text);

// U+2581, SentencePiece's space.
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

}  // namespace minfer::tokenizer
