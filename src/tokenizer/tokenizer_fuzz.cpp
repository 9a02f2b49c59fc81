// Fuzzes the tokenizer: a vocabulary made by hand (of each kind), changed in up to 31 places, and a text. Either the
// vocabulary or the text is refused with an Error, or the ids are in range, decode to the same text whole and piece by
// piece, and the text comes back where the vocabulary loses nothing. An input: byte 0 has the kind of vocabulary (bits
// 0-2) and whether special tokens are parsed (bit 3); byte 1 the number of changes (5 bits); then 4 bytes a change:
// what, the id or place (16 bits), a value; then 16 bytes that changes take new texts from; the rest is the text.
// Seeds: fuzz/corpus/tokenizer.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "tokenizer/stream_decoder.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/vocab_test_support.hpp"

namespace {

using minfer::Error;
using minfer::ErrorCode;
using minfer::tokenizer::StreamDecoder;
using minfer::tokenizer::TokenId;
using minfer::tokenizer::Tokenizer;
using minfer::tokenizer::TokenType;
using minfer::tokenizer::test::Words;

constexpr size_t kMaxTextBytes = 4096;  // of one input: the fuzzer wants many small ones
constexpr size_t kTextPieceBytes = 16;
constexpr std::array kRules = {"gpt-2", "qwen2", "llama-bpe", "smollm", "default"};
constexpr std::array kModels = {"gpt2", "llama", "bert", "t5", "gemma4", "whitespace"};
constexpr unsigned kKinds = 8;  // these rules, and a vocabulary of each other kind

// Takes bytes off the front; zeros when there are none left.
struct Input {
  std::span<const uint8_t> bytes;

  uint8_t byte() {
    if (bytes.empty()) return 0;
    const uint8_t value = bytes[0];
    bytes = bytes.subspan(1);
    return value;
  }
  std::string_view text(size_t size) {
    size = std::min(size, bytes.size());
    const std::string_view value(reinterpret_cast<const char*>(bytes.data()), size);
    bytes = bytes.subspan(size);
    return value;
  }
};

Words start_words(unsigned kind) {
  if (kind < kRules.size()) return minfer::tokenizer::test::byte_words(kRules[kind]);
  if (kind == kRules.size()) return minfer::tokenizer::test::sentence_words();
  if (kind == kRules.size() + 1) return minfer::tokenizer::test::wordpiece_words();
  Words words = minfer::tokenizer::test::unigram_words();
  words.data.charsmap = words.texts.emplace_back(minfer::tokenizer::test::make_charsmap(
      {{"\xEF\xBC\xA1", "A"}, {"\xEF\xAC\x81", "fi"}, {"\xE3\x80\x80", " "}, {"\xC2\xAD", ""}}));
  return words;
}

struct Change {
  uint8_t what;
  size_t place;
  uint8_t value;
};

// A byte of the charsmap becomes another, or its end goes.
void change_charsmap(size_t place, uint8_t value, Words& words) {
  std::string changed(words.data.charsmap);
  if (changed.empty()) return;
  if (value % 8 == 0) {
    changed.resize(place % changed.size());
  } else {
    changed[place % changed.size()] = static_cast<char>(value);
  }
  words.data.charsmap = words.texts.emplace_back(changed);
}

// One field of the vocabulary becomes something else, right or wrong. `piece` is where new texts come from.
void apply(const Change& change, std::string_view piece, Words& words) {
  auto& data = words.data;
  const size_t id = data.tokens.empty() ? 0 : change.place % data.tokens.size();
  const size_t half = change.value % 8;
  const std::string text(piece.substr(std::min<size_t>(change.value / 8 % 8, piece.size()), half + 1));
  const auto number = static_cast<int64_t>(change.place) - 2;
  const auto& rules = minfer::tokenizer::pretokenizer_rules();
  switch (change.what % 16) {
    case 0:
    case 1:  // a token, and the merge that makes it
      words.add(text, TokenType::normal, static_cast<float>(change.value));
      if (half > 0) words.merge(text.substr(0, text.size() / 2) + " " + text.substr(text.size() / 2));
      break;
    case 2:
      words.add(text, static_cast<TokenType>(change.value % 8), static_cast<float>(change.value) - 100.0F);
      break;
    case 3:
      if (!data.tokens.empty()) data.tokens[id] = words.texts.emplace_back(text);
      break;
    case 4:
      if (id < data.types.size()) data.types[id] = static_cast<int32_t>(change.value) - 1;
      break;
    case 5:
      if (id < data.scores.size()) data.scores[id] = static_cast<float>(change.value % 4);
      break;
    case 6:
      if (!data.merges.empty()) data.merges[change.place % data.merges.size()] = words.texts.emplace_back(text);
      break;
    case 7:
      data.bos = number;
      break;
    case 8:
      data.eos = number;
      break;
    case 9:
      data.unk = number;
      break;
    case 10:
      (change.value % 2 == 0 ? data.eot : data.pad) = number;
      break;
    case 11:
      data.add_bos = change.value % 2 == 0;
      data.add_eos = change.value % 4 < 2;
      break;
    case 12:
      data.add_space_prefix = change.value % 2 == 0;
      data.remove_extra_whitespaces = change.value % 4 < 2;
      data.lowercase = change.value % 8 < 4;
      data.strip_accents = change.value % 16 < 8;
      if (change.value % 32 < 16) data.lstrip.push_back(static_cast<TokenId>(number));
      if (change.value % 64 < 32) data.rstrip.push_back(static_cast<TokenId>(number));
      break;
    case 13:
      data.model = kModels[change.value % kModels.size()];
      if (change.value >= 128) change_charsmap(change.place, change.value, words);
      break;
    case 14:
      data.tokens.resize(id);
      if (change.value % 2 == 0) data.types.resize(id);
      if (change.value % 4 < 2) data.scores.resize(id);
      break;
    default:
      data.pre = change.value % 8 == 0 ? text : rules[change.place % rules.size()].names[0];
      break;
  }
}

void require(bool condition) {
  if (!condition) __builtin_trap();
}

void check_text(const Tokenizer& tokenizer, std::string_view text, bool parse_special, bool is_lossless) {
  for (const bool add_special : {false, true}) {
    const auto ids = tokenizer.encode(text, {.parse_special = parse_special, .add_special = add_special});
    for (const TokenId id : ids) require(tokenizer.vocab().contains(id));
    for (const bool show_control : {false, true}) {
      const std::string decoded = tokenizer.decode(ids, {.show_control = show_control});
      StreamDecoder stream(tokenizer, {.show_control = show_control});
      std::string streamed;
      for (const TokenId id : ids) streamed += stream.push(id);
      streamed += stream.finish();
      require(streamed == decoded);
      require(minfer::find_malformed_utf8(decoded) == std::string::npos);
      if (is_lossless && show_control && !add_special) require(decoded == text);
    }
  }
}

// The vocabularies without a change, one a kind.
struct Starts {
  std::deque<Words> words;  // never moves them: the tokenizers view their texts
  std::vector<std::unique_ptr<Tokenizer>> tokenizers;
  Starts() {
    for (unsigned kind = 0; kind < kKinds; ++kind) {
      words.push_back(start_words(kind));
      tokenizers.push_back(std::make_unique<Tokenizer>(words.back().data));
    }
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input{{data, size}};
  const uint8_t head = input.byte();
  const unsigned kind = head % kKinds;
  const bool parse_special = (head & 8) != 0;
  const size_t changes = input.byte() % 32;
  const std::string_view records = input.text(changes * 4);
  const std::string_view piece = input.text(kTextPieceBytes);
  const std::string_view text = input.text(kMaxTextBytes);
  try {
    if (changes == 0) {
      // Making a tokenizer costs as much as a thousand texts.
      static const Starts starts;
      // What is lost: form C (qwen2), and spaces that stand beside the one that a sentence vocabulary puts first.
      check_text(*starts.tokenizers[kind], text, parse_special, kind < kRules.size() && kind != 1);
    } else {
      Words words = start_words(kind);
      Input fields{{reinterpret_cast<const uint8_t*>(records.data()), records.size()}};
      for (size_t index = 0; index < changes; ++index) {
        const uint8_t what = fields.byte();
        const size_t low = fields.byte();
        const size_t place = low + size_t{256} * fields.byte();
        apply({what, place, fields.byte()}, piece, words);
      }
      check_text(Tokenizer(std::move(words.data)), text, parse_special, false);
    }
  } catch (const Error& error) {
    require(error.code() == ErrorCode::invalid_input || error.code() == ErrorCode::unsupported);
  }
  return 0;
}
