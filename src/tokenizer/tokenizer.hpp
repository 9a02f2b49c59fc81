// Text to token ids and back: the face of the room. A Tokenizer is made once from a model file's vocabulary and shared:
// it is immutable but for a pool of scratch memory, and any number of threads may encode and decode at once.
// encode(): special tokens are cut out first (user-defined ones always, control ones only with parse_special: text of a
// user can't forge them otherwise), with the white space beside them where the model says so, and the text between goes
// to the model of the vocabulary's kind.
// Text in and out is UTF-8. Limits: kMaxTextBytes bytes a call, kMaxIdleScratch scratch blocks kept between calls.
// Tokens are views into memory that the caller of the constructor keeps (see vocab.hpp).
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/byte_bpe.hpp"
#include "tokenizer/sentencepiece.hpp"
#include "tokenizer/special_matcher.hpp"
#include "tokenizer/unigram.hpp"
#include "tokenizer/vocab.hpp"
#include "tokenizer/wordpiece.hpp"

namespace minfer::tokenizer {

constexpr size_t kMaxTextBytes = size_t{1} << 29;
constexpr size_t kMaxIdleScratch = 16;
constexpr size_t kMaxKeptTextBytes = size_t{1} << 20;  // scratch of longer texts is not kept

struct EncodeOptions {
  bool parse_special = false;  // recognize control tokens in the text
  bool add_special = false;    // add BOS and EOS (of "bert": [CLS] and [SEP]) where the model asks for them
};

struct DecodeOptions {
  bool show_control = false;  // emit the text of control and unknown tokens
  // The ids begin a text rather than go on with one: where the model puts a space before every text, the first token's
  // space is taken off again.
  bool at_text_start = true;
};

class Tokenizer {
 public:
  // Errors: see Vocab, ByteBpe, SentencePieceBpe, WordPiece, Unigram.
  explicit Tokenizer(VocabData data);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  const Vocab& vocab() const { return vocab_; }
  bool adds_bos() const { return add_bos_; }
  // A space is put before each piece of text that begins the text or follows a special token; of 'bert', before words.
  bool adds_space_prefix() const { return add_space_prefix_; }
  // How many tokens `text` has at least, from its bytes and the longest token: found in a fraction of encode's time. 0
  // where nothing is known, as texts lose white space or case on the way to tokens.
  size_t least_tokens(std::string_view text) const;

  // Errors: invalid_input where `text` is malformed UTF-8 (naming the byte) or longer than kMaxTextBytes.
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // The text of `ids`; malformed bytes become U+FFFD (see StreamDecoder). Errors: invalid_input for an id out of range.
  std::string decode(std::span<const TokenId> ids, const DecodeOptions& options = {}) const;
  // The bytes of one token, which need not be whole characters; a control token's are its name.
  // Errors: invalid_input for an id out of range.
  std::string token_bytes(TokenId id) const;
  // The same, added to `out`: allocates nothing where that has room.
  void append_token_bytes(TokenId id, std::string& out) const;

 private:
  using Model = std::variant<std::unique_ptr<ByteBpe>, std::unique_ptr<SentencePieceBpe>, std::unique_ptr<WordPiece>,
                             std::unique_ptr<Unigram>>;
  struct Scratch;

  std::unique_ptr<Scratch> take_scratch() const;
  void return_scratch(std::unique_ptr<Scratch> scratch) const;
  void set_defaults();
  size_t find_most_token_bytes() const;
  std::string_view without_stripped(std::string_view text, TokenId before, TokenId behind) const;
  void encode_segment(std::string_view text, Scratch& scratch, std::vector<TokenId>& out) const;

  Vocab vocab_;
  Model model_;
  bool add_bos_ = false;
  std::optional<TokenId> end_;  // what add_special puts last
  bool add_space_prefix_ = false;
  size_t most_token_bytes_ = 0;  // of a text that one token can stand for; 0: not known
  SpecialMatcher user_tokens_;
  SpecialMatcher special_tokens_;  // user-defined, control and unknown ones

  mutable std::mutex pool_mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> pool_;  // idle scratch, at most kMaxIdleScratch
};

}  // namespace minfer::tokenizer
