// Vocabularies made by hand, one of each kind: for the unit tests and as the start of the fuzzer's. The texts of each
// live beside it, as a model file's do.
#pragma once

#include <fmt/format.h>

#include <deque>
#include <string>
#include <utility>

#include "tokenizer/utf8.hpp"
#include "tokenizer/vocab.hpp"

namespace minfer::tokenizer::test {

// A vocabulary and the texts that it views; may be moved, not copied.
struct Words {
  std::deque<std::string> texts;
  VocabData data;

  TokenId add(std::string text, TokenType type = TokenType::normal, float score = 0.0F) {
    data.tokens.push_back(texts.emplace_back(std::move(text)));
    data.types.push_back(static_cast<int32_t>(type));
    data.scores.push_back(score);
    return static_cast<TokenId>(data.tokens.size()) - 1;
  }
  void merge(std::string text) { data.merges.push_back(texts.emplace_back(std::move(text))); }
};

// 256 byte tokens (id = byte), then "he" 256, "ll" 257, "hell" 258, "hello" 259, "Ġw" 260, user "<u>" 261, control
// "<|im_end|>" 262, control "<|im_end|>x" 263.
inline Words byte_words(std::string pre = "gpt-2") {
  Words words;
  words.data.model = "gpt2";
  words.data.pre = std::move(pre);
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string text;
    append_utf8(text, byte_level_character(static_cast<uint8_t>(byte)));
    words.add(text);
  }
  for (const char* text : {"he", "ll", "hell", "hello", "\xC4\xA0w"}) words.add(text);
  words.add("<u>", TokenType::user_defined);
  words.add("<|im_end|>", TokenType::control);
  words.add("<|im_end|>x", TokenType::control);
  for (const char* text : {"h e", "l l", "he ll", "hell o", "\xC4\xA0 w"}) words.merge(text);
  return words;
}

// "<unk>" 0, "<s>" 1, "</s>" 2, byte tokens 3..258, then "▁" 259, "a" 260, "b" 261, "▁a" 262, "ab" 263, "▁ab" 264, "aa"
// 265, user "  " 266, user "<u>" 267.
inline Words sentence_words() {
  Words words;
  words.data.model = "llama";
  words.add("<unk>", TokenType::unknown);
  words.add("<s>", TokenType::control);
  words.add("</s>", TokenType::control);
  for (int byte = 0; byte < 256; ++byte) words.add(fmt::format("<0x{:02X}>", byte), TokenType::byte);
  const std::string mark(kSpaceMark);
  words.add(mark, TokenType::normal, -10);
  words.add("a", TokenType::normal, -11);
  words.add("b", TokenType::normal, -12);
  words.add(mark + "a", TokenType::normal, -2);
  words.add("ab", TokenType::normal, -1);
  words.add(mark + "ab", TokenType::normal, -3);
  words.add("aa", TokenType::normal, -4);
  words.add("  ", TokenType::user_defined, -1000);
  words.add("<u>", TokenType::user_defined);
  words.data.bos = 1;
  words.data.eos = 2;
  words.data.unk = 0;
  return words;
}

}  // namespace minfer::tokenizer::test
