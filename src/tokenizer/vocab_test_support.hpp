// Vocabularies made by hand, one of each kind: for the unit tests and as the start of the fuzzer's. The texts of each
// live beside it, as a model file's do.
#pragma once

#include <fmt/format.h>

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

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

// "[UNK]" 0, "[CLS]" 1, "[SEP]" 2, "▁the" 3, "▁un" 4, "aff" 5, "able" 6, "▁a" 7, "▁." 8, "▁\u4E2D" 9, "▁e" 10, "a" 11,
// "▁é" 12, "▁X" 13.
inline Words wordpiece_words() {
  Words words;
  words.data.model = "bert";
  for (const char* text : {"[UNK]", "[CLS]", "[SEP]"}) words.add(text, TokenType::control);
  const std::string mark(kSpaceMark);
  words.add(mark + "the");
  words.add(mark + "un");
  words.add("aff");
  words.add("able");
  words.add(mark + "a");
  words.add(mark + ".");
  words.add(mark + "\xE4\xB8\xAD");
  words.add(mark + "e");
  words.add("a");
  words.add(mark + "\xC3\xA9");
  words.add(mark + "X");
  return words;
}

// "<unk>" 0, "</s>" 1, "▁" 2, "a" 3, "b" 4, "▁a" 5, "ab" 6, "fi" 7, "A" 8, unused "aa" 9.
inline Words unigram_words() {
  Words words;
  words.data.model = "t5";
  words.add("<unk>", TokenType::unknown);
  words.add("</s>", TokenType::control);
  const std::string mark(kSpaceMark);
  words.add(mark, TokenType::normal, -3);
  words.add("a", TokenType::normal, -2);
  words.add("b", TokenType::normal, -2.5F);
  words.add(mark + "a", TokenType::normal, -4);
  words.add("ab", TokenType::normal, -3);
  words.add("fi", TokenType::normal, -1);
  words.add("A", TokenType::normal, -1);
  words.add("aa", TokenType::unused, -0.1F);
  return words;
}

// A compiled charsmap that replaces each first text by the second. A node's children lie in 256 places of their own.
inline std::string make_charsmap(const std::map<std::string, std::string>& replacements) {
  constexpr uint32_t kBlock = 256;
  std::vector<uint32_t> nodes(kBlock, 0);
  std::map<std::string, uint32_t> places = {{"", 0}};  // of the node that a text leads to
  std::map<std::string, uint32_t> blocks;
  const auto set_offset = [&](uint32_t place, uint32_t block) { nodes[place] |= (place ^ block) << 10; };
  const auto block_of = [&](const std::string& text) {
    if (const auto found = blocks.find(text); found != blocks.end()) return found->second;
    const auto block = static_cast<uint32_t>(nodes.size());
    nodes.resize(nodes.size() + kBlock, 0);
    set_offset(places.at(text), block);
    return blocks[text] = block;
  };
  std::string texts;
  for (const auto& [from, to] : replacements) {
    for (size_t size = 1; size <= from.size(); ++size) {
      const uint32_t block = block_of(from.substr(0, size - 1));
      const auto byte = static_cast<uint8_t>(from[size - 1]);
      places[from.substr(0, size)] = block ^ byte;
      nodes[block ^ byte] |= byte;
    }
    const uint32_t block = block_of(from);
    nodes[places.at(from)] |= 1u << 8;
    nodes[block] = (1u << 31) | static_cast<uint32_t>(texts.size());
    texts += to + '\0';
  }
  std::string blob;
  const auto add_u32 = [&blob](uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) blob.push_back(static_cast<char>(value >> shift & 0xFF));
  };
  add_u32(static_cast<uint32_t>(nodes.size() * 4));
  for (const uint32_t node : nodes) add_u32(node);
  return blob + texts;
}

}  // namespace minfer::tokenizer::test
