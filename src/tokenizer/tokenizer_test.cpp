// Unit tests on small vocabularies made by hand: validation, byte-level BPE, SentencePiece BPE, special tokens,
// streams.
#include "tokenizer/tokenizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/error.hpp"
#include "tokenizer/normalize.hpp"
#include "tokenizer/stream_decoder.hpp"
#include "tokenizer/vocab_test_support.hpp"

namespace minfer::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using test::byte_words;
using test::sentence_words;
using test::unigram_words;
using test::wordpiece_words;
using test::Words;

std::string error_of(const std::function<void(Words&)>& change, Words words = byte_words()) {
  change(words);
  try {
    const Tokenizer tokenizer(words.data);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Vocab, RefusesWhatIsWrongByName) {
  EXPECT_THAT(error_of([](Words& w) { w.data.model = "rwkv"; }),
              HasSubstr("'rwkv' (tokenizer.ggml.model) is not supported"));
  EXPECT_THAT(error_of([](Words& w) { w.data.tokens.clear(); }), HasSubstr("has no tokens"));
  EXPECT_THAT(error_of([](Words& w) { w.data.types.pop_back(); }), HasSubstr("264 tokens but 263 token types"));
  EXPECT_THAT(error_of([](Words& w) { w.data.types[5] = 7; }), HasSubstr("token 5 has type 7"));
  EXPECT_THAT(error_of([](Words& w) { w.add("hello"); }), HasSubstr("tokens 259 and 264 have the same text 'hello'"));
  EXPECT_THAT(error_of([](Words& w) { w.data.eos = 264; }), HasSubstr("the EOS token id is 264"));
  EXPECT_THAT(error_of([](Words& w) { w.data.bos = -1; }), HasSubstr("the BOS token id is -1"));
  EXPECT_THAT(error_of([](Words& w) { w.data.eot = int64_t{1} << 32; }), HasSubstr("the EOT token id is 4294967296"));
  EXPECT_THAT(error_of([](Words& w) { w.data.add_bos = true; }), HasSubstr("names no BOS id"));
  EXPECT_THAT(error_of([](Words& w) { w.merge("h zz"); }), HasSubstr("merge 5 'h zz' names 'zz', which is no token"));
  EXPECT_THAT(error_of([](Words& w) { w.merge("o o"); }), HasSubstr("names 'oo'"));
  EXPECT_THAT(error_of([](Words& w) { w.merge("he"); }), HasSubstr("merge 5 is 'he'"));
  EXPECT_THAT(error_of([](Words& w) { w.merge(""); }), HasSubstr("merge 5 is ''"));
  EXPECT_THAT(error_of([](Words& w) { w.data.pre = "zebra"; }),
              HasSubstr("'zebra' (tokenizer.ggml.pre) is not known; known are 'gpt-2'"));
  EXPECT_THAT(error_of([](Words& w) { w.add("<0x-1>", TokenType::byte); }, sentence_words()), HasSubstr("'<0x-1>'"));
  EXPECT_THAT(error_of([](Words& w) { w.data.scores.pop_back(); }, sentence_words()), HasSubstr("267 scores"));
  EXPECT_THAT(error_of([](Words& w) { w.data.scores[9] = std::numeric_limits<float>::quiet_NaN(); }, sentence_words()),
              HasSubstr("token 9 has a score that is no number"));
}

TEST(Vocab, KnowsEndTokens) {
  Words words = byte_words();
  words.data.eos = 5;
  words.data.eom = 6;
  const Vocab vocab(words.data);
  EXPECT_TRUE(vocab.is_end_of_generation(5));
  EXPECT_TRUE(vocab.is_end_of_generation(6));
  EXPECT_TRUE(vocab.is_end_of_generation(262));
  EXPECT_FALSE(vocab.is_end_of_generation(263));
  EXPECT_FALSE(vocab.is_end_of_generation(-1));
  EXPECT_EQ(vocab.type(262), TokenType::control);
  EXPECT_NE(vocab.type(261), TokenType::control);
  EXPECT_EQ(vocab.find("hello"), 259);
  EXPECT_EQ(vocab.find("nothing"), -1);
}

TEST(ByteBpe, MergesInListOrder) {
  const Words words = byte_words();
  const Tokenizer tokenizer(words.data);
  EXPECT_THAT(tokenizer.encode(""), IsEmpty());
  EXPECT_THAT(tokenizer.encode("hello world"), ElementsAre(259, 260, 'o', 'r', 'l', 'd'));
  EXPECT_THAT(tokenizer.encode("hellll"), ElementsAre(258, 257));
  EXPECT_THAT(tokenizer.encode("lll"), ElementsAre(257, 'l'));
  EXPECT_THAT(tokenizer.encode("\xC3\xA9"), ElementsAre(0xC3, 0xA9));
}

TEST(ByteBpe, TakesWholeWordsWhereTheRuleSays) {
  Words words = byte_words("llama-bpe");
  const TokenId whole = words.add("unmergeable");
  const TokenId forged = words.add("secret", TokenType::control);
  const Tokenizer tokenizer(words.data);
  EXPECT_THAT(tokenizer.encode("unmergeable"), ElementsAre(whole));
  EXPECT_THAT(tokenizer.encode("secret"), ElementsAre('s', 'e', 'c', 'r', 'e', 't'));
  EXPECT_THAT(tokenizer.encode("secret", {.parse_special = true}), ElementsAre(forged));
}

TEST(ByteBpe, NormalizesWhereTheRuleSays) {
  const Words words = byte_words("qwen2");
  EXPECT_THAT(Tokenizer(words.data).encode("e\xCC\x81"), ElementsAre(0xC3, 0xA9));
  const Words plain = byte_words("gpt-2");
  EXPECT_THAT(Tokenizer(plain.data).encode("e\xCC\x81"), ElementsAre('e', 0xCC, 0x81));
}

TEST(Encode, SpecialTokens) {
  const Words words = byte_words();
  const Tokenizer tokenizer(words.data);
  const std::string end = "<|im_end|>";
  EXPECT_THAT(tokenizer.encode("a<u>b"), ElementsAre('a', 261, 'b'));
  EXPECT_EQ(tokenizer.encode(end).size(), end.size());
  EXPECT_THAT(tokenizer.encode(end, {.parse_special = true}), ElementsAre(262));
  EXPECT_THAT(tokenizer.encode(end + "x", {.parse_special = true}), ElementsAre(263));
  EXPECT_THAT(tokenizer.encode("<" + end + "<u", {.parse_special = true}), ElementsAre('<', 262, '<', 'u'));
}

TEST(Encode, AddsBosAndEosWhereAsked) {
  Words words = sentence_words();
  words.data.add_eos = true;
  const Tokenizer tokenizer(words.data);
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_THAT(tokenizer.encode("a", {.add_special = true}), ElementsAre(1, 262, 2));
  EXPECT_THAT(tokenizer.encode("", {.add_special = true}), ElementsAre(1, 2));
  EXPECT_THAT(tokenizer.encode("a"), ElementsAre(262));
}

TEST(Encode, RefusesMalformedText) {
  const Words words = byte_words();
  const Tokenizer tokenizer(words.data);
  for (const char* text : {"ab\xFF", "ab\xC3", "ab\xED\xA0\x80", "ab\xC0\x80", "ab\xF4\x90\x80\x80"}) {
    try {
      tokenizer.encode(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
      EXPECT_THAT(error.what(), HasSubstr("at offset 2"));
    }
  }
}

TEST(SentencePiece, MergesByScore) {
  const Words words = sentence_words();
  const Tokenizer tokenizer(words.data);
  EXPECT_THAT(tokenizer.encode("ab"), ElementsAre(264));  // "ab" first, then "▁ab"
  EXPECT_THAT(tokenizer.encode("a ab"), ElementsAre(262, 264));
  EXPECT_THAT(tokenizer.encode("\xC3\xA9"), ElementsAre(259, 3 + 0xC3, 3 + 0xA9));
  EXPECT_THAT(tokenizer.encode("a<u>a"), ElementsAre(262, 267, 262));
  EXPECT_THAT(tokenizer.encode("</s>a", {.parse_special = true}), ElementsAre(2, 262));
}

TEST(SentencePiece, RunsOfSpacesComeFirst) {
  Words words = sentence_words();
  words.data.add_space_prefix = false;
  const Tokenizer tokenizer(words.data);
  EXPECT_THAT(tokenizer.encode("a  a"), ElementsAre(260, 266, 260));
  EXPECT_THAT(tokenizer.encode("a   a"), ElementsAre(260, 266, 262));
  const std::vector<TokenId> ids = tokenizer.encode("b  a");
  EXPECT_EQ(tokenizer.decode(ids), "b  a");
}

TEST(SentencePiece, NeverCutsInsideAToken) {
  Words words = sentence_words();
  words.data.add_space_prefix = false;
  const std::string mark(kSpaceMark);
  const TokenId left = words.add("b" + mark, TokenType::normal, -0.5F);
  const Tokenizer tokenizer(words.data);
  EXPECT_THAT(tokenizer.encode("b a"), ElementsAre(left, 260));
}

TEST(SentencePiece, UnknownCharacters) {
  Words words;
  words.data.model = "llama";
  words.data.add_space_prefix = false;
  words.add("a");
  words.add("<unk>", TokenType::unknown);
  EXPECT_THROW(Tokenizer(words.data).encode("z"), Error);
  words.data.unk = 1;
  EXPECT_THAT(Tokenizer(words.data).encode("az"), ElementsAre(0, 1));
}

TEST(ByteBpe, WholeCharacters) {
  Words words;
  words.data.model = "gemma4";
  const std::string mark(kSpaceMark);
  for (const std::string& text : {mark, std::string("a"), mark + "a", std::string("\xC3\xA9")}) words.add(text);
  for (int byte = 0; byte < 256; ++byte) words.add(fmt::format("<0x{:02X}>", byte), TokenType::byte);
  words.add("<bos>", TokenType::control);
  words.data.bos = 260;
  words.merge(mark + " a");
  const Tokenizer tokenizer(words.data);
  const auto ids = tokenizer.encode("a a\xC3\xA9z");
  EXPECT_THAT(ids, ElementsAre(1, 2, 3, 4 + 'z'));
  EXPECT_EQ(tokenizer.decode(ids), "a a\xC3\xA9z");
  EXPECT_THAT(tokenizer.encode("a", {.add_special = true}), ElementsAre(260, 1));
}

TEST(WordPiece, LongestTokenFirst) {
  const Words words = wordpiece_words();
  const Tokenizer tokenizer(words.data);
  EXPECT_THAT(tokenizer.encode("The unaffable."), ElementsAre(3, 4, 5, 6, 8));
  EXPECT_THAT(tokenizer.encode("the\xE4\xB8\xAD"
                               "a"),
              ElementsAre(3, 9, 7));
  EXPECT_THAT(tokenizer.encode("a\x01"
                               "a \xC2\xA0 aX"),
              ElementsAre(7, 11, 0));
  EXPECT_THAT(tokenizer.encode("E\xCC\x81 \xC3\x89"), ElementsAre(10, 10));
  EXPECT_THAT(tokenizer.encode("a" + std::string(99, 'a')).size(), 100u);
  EXPECT_THAT(tokenizer.encode(std::string(101, 'a')), ElementsAre(0));
  EXPECT_THAT(tokenizer.encode("a" + std::string(kSpaceMark) + "a"), ElementsAre(0));
  EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{1, 3, 4, 5, 2}), "the unaff");
}

TEST(WordPiece, SpecialTokens) {
  const Words words = wordpiece_words();
  const Tokenizer tokenizer(words.data);
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_THAT(tokenizer.encode("the", {.add_special = true}), ElementsAre(1, 3, 2));
  EXPECT_THAT(tokenizer.encode("[SEP]", {.parse_special = true}), ElementsAre(2));
  EXPECT_THAT(tokenizer.encode("[SEP]"), ElementsAre(0, 0, 0));
  Words bare = wordpiece_words();
  bare.data.add_bos = false;
  bare.data.add_eos = false;
  EXPECT_THAT(Tokenizer(bare.data).encode("the", {.add_special = true}), ElementsAre(3));
}

TEST(WordPiece, CaseAndAccentsStayWhereTheFileSays) {
  Words words = wordpiece_words();
  words.data.lowercase = false;
  EXPECT_THAT(Tokenizer(words.data).encode("X x \xC3\xA9"), ElementsAre(13, 0, 12));
  words.data.lowercase = true;
  words.data.strip_accents = false;
  EXPECT_THAT(Tokenizer(words.data).encode("X \xC3\x89"), ElementsAre(0, 12));
  Words lacking = wordpiece_words();
  lacking.data.tokens[0] = "[none]";
  EXPECT_THAT(error_of([](Words&) {}, std::move(lacking)), HasSubstr("needs an unknown token"));
}

TEST(Unigram, BestSumOfScores) {
  const Words words = unigram_words();
  const Tokenizer tokenizer(words.data);
  EXPECT_THAT(tokenizer.encode("a"), ElementsAre(5));              // -4, not -3 - 2
  EXPECT_THAT(tokenizer.encode("b ab"), ElementsAre(2, 4, 2, 6));  // -6, not -6.5
  EXPECT_THAT(tokenizer.encode("aab"), ElementsAre(5, 6));
  EXPECT_THAT(tokenizer.encode("xyb"), ElementsAre(2, 0, 4));  // one unknown token for both
  EXPECT_THAT(tokenizer.encode("a", {.add_special = true}), ElementsAre(5, 1));
  EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{5, 6, 5}), "aab a");
}

TEST(Unigram, NormalizesByTheCharsmap) {
  Words words = unigram_words();
  words.data.charsmap = words.texts.emplace_back(
      test::make_charsmap({{"\xEF\xBC\xA1", "A"}, {"\xEF\xAC\x81", "fi"}, {"\xE3\x80\x80", " "}, {"\xC2\xAD", ""}}));
  words.data.remove_extra_whitespaces = true;
  const Tokenizer tokenizer(words.data);
  EXPECT_THAT(tokenizer.encode("\xEF\xBC\xA1\xEF\xAC\x81"), ElementsAre(2, 8, 7));
  EXPECT_THAT(tokenizer.encode(" \xE3\x80\x80"
                               "a\xC2\xAD \xE3\x80\x80 a "),
              ElementsAre(5, 5));
  EXPECT_THAT(tokenizer.encode(" \xE3\x80\x80"), IsEmpty());
}

TEST(Unigram, RefusesAWrongCharsmap) {
  const auto with_charsmap = [](std::string blob) {
    return error_of([&blob](Words& words) { words.data.charsmap = words.texts.emplace_back(blob); }, unigram_words());
  };
  EXPECT_THAT(with_charsmap("ab"), HasSubstr("precompiled_charsmap has 2 bytes and a trie of 0"));
  EXPECT_THAT(with_charsmap(std::string("\x08\0\0\0abcd", 8)), HasSubstr("8 bytes and a trie of 8"));
  EXPECT_THAT(with_charsmap(std::string("\x04\0\0\0\0\0\0\0x", 9)), HasSubstr("ends within a text"));
  // A root whose children would lie outside: found where a text leads there.
  Words words = unigram_words();
  words.data.charsmap = words.texts.emplace_back(std::string("\x04\0\0\0\0\0\1\0", 8));
  EXPECT_THROW(Tokenizer(words.data).encode("a"), Error);
}

TEST(Unigram, ByteTokens) {
  Words words = unigram_words();
  for (int byte = 0; byte < 256; ++byte) words.add(fmt::format("<0x{:02X}>", byte), TokenType::byte);
  EXPECT_THAT(Tokenizer(words.data).encode("\xC3\xA9"), ElementsAre(2, 10 + 0xC3, 10 + 0xA9));
  words.data.scores[3] = -std::numeric_limits<float>::infinity();
  EXPECT_THAT(error_of([](Words&) {}, std::move(words)), HasSubstr("infinite score"));
}

TEST(Encode, SpecialTokensTakeWhiteSpaceWhereTheFileSays) {
  Words words = sentence_words();
  words.data.rstrip = {267};
  words.data.lstrip = {2};
  const Tokenizer tokenizer(words.data);
  EXPECT_THAT(tokenizer.encode("a <u>\n\xE2\x80\x83 a"), ElementsAre(262, 259, 267, 262));
  EXPECT_THAT(tokenizer.encode("a \n</s>a", {.parse_special = true}), ElementsAre(262, 2, 262));
}

TEST(Encode, SizeBoundsTheTokensFromBelow) {
  const std::string text(1000, 'a');
  const auto least = [&text](const Words& words) { return Tokenizer(words.data).least_tokens(text); };
  EXPECT_EQ(least(byte_words()), 91U);             // "<|im_end|>x" has 11 bytes
  EXPECT_EQ(least(sentence_words()), 167U);        // "<0x00>" as it is written
  EXPECT_EQ(least(byte_words("command-r")), 12U);  // form C may be shorter
  Words stripping = byte_words();
  stripping.data.rstrip = {262};
  EXPECT_EQ(least(stripping), 0U);
  Words lacking = byte_words();
  lacking.data.tokens['a'] = "other";
  EXPECT_EQ(least(lacking), 0U);  // bytes without a token are left out
  lacking.data.tokens['a'] = "a";
  lacking.data.tokens['b'] = "other";
  EXPECT_EQ(least(lacking), 91U);
  EXPECT_EQ(Tokenizer(byte_words().data).least_tokens(""), 0U);
}

TEST(Decode, SpacesAndControlTokens) {
  const Words words = sentence_words();
  const Tokenizer tokenizer(words.data);
  const std::vector<TokenId> ids = {1, 262, 262, 2};
  EXPECT_EQ(tokenizer.decode(ids), "a a");
  EXPECT_EQ(tokenizer.decode(ids, {.at_text_start = false}), " a a");
  EXPECT_EQ(tokenizer.decode(ids, {.show_control = true}), "<s>a a</s>");
  const std::vector<TokenId> wrong = {268};
  EXPECT_THROW(tokenizer.decode(wrong), Error);
}

TEST(StreamDecoder, EmitsWholeCharactersOnly) {
  const Words words = byte_words();
  const Tokenizer tokenizer(words.data);
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.push(0xF0), "");
  EXPECT_EQ(stream.push(0x9F), "");
  EXPECT_EQ(stream.push(0x98), "");
  EXPECT_EQ(stream.push(0x80), "\xF0\x9F\x98\x80");
  EXPECT_EQ(stream.push(0xC3), "");
  EXPECT_EQ(stream.push('x'), "\xEF\xBF\xBDx");
  EXPECT_EQ(stream.push(0xFF), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.push(0xE2), "");
  EXPECT_EQ(stream.push(262), "");
  EXPECT_EQ(stream.push(0x82), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.finish(), "");
}

TEST(NormalizeNfc, LongRunsOfMarksAreSortedAlike) {
  const auto nfc = [](const std::string& text) {
    std::string storage;
    return std::string(normalize_nfc(text, storage));
  };
  EXPECT_EQ(nfc("abc"), "abc");
  EXPECT_EQ(nfc("q\xCC\x87\xCC\xA3"), "q\xCC\xA3\xCC\x87");
  std::string mixed = "e";
  std::string expected = "e";
  for (int count = 0; count < 100; ++count) mixed += "\xCC\x81\xCC\xA3";  // above, below
  for (int count = 0; count < 100; ++count) expected += "\xCC\xA3";
  for (int count = 0; count < 100; ++count) expected += "\xCC\x81";
  EXPECT_EQ(nfc(mixed), "\xE1\xBA\xB9" + expected.substr(3));  // "ẹ" takes the first mark below
}

// Linear time: each of these takes milliseconds; quadratic work would not finish.
TEST(Encode, LongRunsFinish) {
  const Words bytes = byte_words("qwen2");
  const Words llama = byte_words("llama-bpe");
  const Words sentence = sentence_words();
  const Words pieces = wordpiece_words();
  const Words unigram = unigram_words();
  const Words whole = byte_words("gemma4");
  const Tokenizer tokenizers[] = {Tokenizer(bytes.data),  Tokenizer(llama.data),   Tokenizer(sentence.data),
                                  Tokenizer(pieces.data), Tokenizer(unigram.data), Tokenizer(whole.data)};
  for (const Tokenizer& tokenizer : tokenizers) {
    for (const std::string_view unit : {"l", " ", "\n", "7", "!", "\xCC\x81", "\xE4\xB8\xAD", "\xE2\x96\x81"}) {
      std::string text;
      while (text.size() < 1000000) text += unit;
      const auto ids = tokenizer.encode(text);
      EXPECT_LE(ids.size(), 4 * text.size());
      EXPECT_EQ(find_malformed_utf8(tokenizer.decode(ids)), std::string::npos);
      EXPECT_FALSE(tokenizer.encode(text + "x").empty());
    }
    std::string marks;
    for (int count = 0; count < 250000; ++count) marks += "\xCC\x81";
    for (int count = 0; count < 250000; ++count) marks += "\xCC\xA3";
    EXPECT_LE(tokenizer.encode(marks).size(), 4 * marks.size());
  }
}

}  // namespace
}  // namespace minfer::tokenizer
