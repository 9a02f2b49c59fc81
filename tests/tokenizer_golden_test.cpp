// Ids against the published tokenizers. golden/tokenizer/*.json holds texts (scripts, planes, spaces, numbers, code,
// emoji, special tokens, and generated mixtures) with the ids of the Python package `tokenizers`, special tokens
// parsed, no BOS; the vocabularies come from model files, which are looked up in the model folder and read as the
// product reads them. The vocabulary fixtures of llama.cpp bring texts and ids of their own.
#include <gtest/gtest.h>

#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "base/options.hpp"
#include "gguf/reader.hpp"
#include "model/vocab.hpp"
#include "tokenizer/stream_decoder.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/utf8.hpp"

namespace minfer::tokenizer {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> split_texts(const std::string& all, const std::string& separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t at = all.find(separator); at != std::string::npos; at = all.find(separator, begin)) {
    parts.push_back(all.substr(begin, at - begin));
    begin = at + separator.size();
  }
  parts.push_back(all.substr(begin));
  return parts;
}

std::vector<TokenId> parse_ids(const std::string& line) {
  std::istringstream in(line);
  std::vector<TokenId> ids;
  for (TokenId id = 0; in >> id;) ids.push_back(id);
  return ids;
}

// Skips the test where `path` is absent, or fails it if models are required; true where the test should return.
bool lacks_file(const std::string& path) {
  if (std::filesystem::exists(path)) return false;
  const auto stop = [&path] {
    if (environment_options().require_models) FAIL() << "no file " << path;
    GTEST_SKIP() << "no file " << path << " (set MINFER_FIXTURES and MINFER_MODEL_DIR)";
  };
  stop();
  return true;
}

std::string unpack_xz(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(("xz -dc '" + path + "'").c_str(), "r"), pclose);
  std::string all;
  std::vector<char> block(size_t{1} << 16);
  for (size_t count = 1; pipe && count > 0;) {
    count = std::fread(block.data(), 1, block.size(), pipe.get());
    all.append(block.data(), count);
  }
  return all;
}

void expect_golden_ids(const Tokenizer& tokenizer, const std::string& name) {
  const std::string path = std::string(MINFER_SOURCE_DIR) + "/tests/golden/tokenizer/" + name + ".json";
  const auto rows = nlohmann::json::parse(read_file(path));
  ASSERT_GT(rows.size(), 50u);
  for (const auto& row : rows) {
    const auto text = row.at("text").get<std::string>();
    const auto ids = row.at("ids").get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer.encode(text, {.parse_special = true}), ids) << text;
    std::string streamed;
    StreamDecoder stream(tokenizer, {.show_control = true});
    for (const TokenId id : ids) {
      streamed += stream.push(id);
      ASSERT_EQ(find_malformed_utf8(streamed), std::string::npos);
    }
    streamed += stream.finish();
    EXPECT_EQ(streamed, tokenizer.decode(ids, {.show_control = true}));
  }
}

class GoldenModel : public testing::TestWithParam<const char*> {};

TEST_P(GoldenModel, IdsAreThePublishedOnes) {
  const std::string path = environment_options().model_dir + "/" + GetParam() + ".gguf";
  if (lacks_file(path)) return;
  const gguf::File file(path);
  const Tokenizer tokenizer(model::read_vocab(file));
  expect_golden_ids(tokenizer, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenModel, testing::Values("smollm2-135m", "qwen2.5-coder-0.5b", "gemma3-270m"));

// A rule without a model file at hand: the vocabulary comes from the published tokenizer.json.
TEST(GoldenTokenizerJson, Llama32) {
  const std::string path = environment_options().fixtures + "/tokenizers/llama3_2/tokenizer.json.xz";
  if (lacks_file(path)) return;
  const auto published = nlohmann::json::parse(unpack_xz(path));
  const auto& vocabulary = published.at("model").at("vocab");
  const auto& added = published.at("added_tokens");
  VocabData data;
  data.model = "gpt2";
  data.pre = "llama-bpe";
  data.tokens.resize(vocabulary.size() + added.size());
  data.types.assign(data.tokens.size(), static_cast<int32_t>(TokenType::normal));
  std::deque<std::string> texts;
  for (const auto& [text, id] : vocabulary.items()) data.tokens.at(id.get<size_t>()) = texts.emplace_back(text);
  for (const auto& token : added) {
    const auto id = token.at("id").get<size_t>();
    data.tokens.at(id) = texts.emplace_back(token.at("content").get<std::string>());
    data.types.at(id) = static_cast<int32_t>(TokenType::control);
  }
  for (const auto& merge : published.at("model").at("merges")) {
    data.merges.push_back(texts.emplace_back(merge.is_string()
                                                 ? merge.get<std::string>()
                                                 : merge[0].get<std::string>() + " " + merge[1].get<std::string>()));
  }
  expect_golden_ids(Tokenizer(std::move(data)), "llama3_2");
}

class VocabFixture : public testing::TestWithParam<const char*> {};

TEST_P(VocabFixture, IdsAreTheExpectedOnes) {
  const std::string path = environment_options().fixtures + "/vocab/ggml-vocab-" + GetParam() + ".gguf";
  if (lacks_file(path)) return;
  const gguf::File file(path);
  const Tokenizer tokenizer(model::read_vocab(file));
  const auto texts = split_texts(read_file(path + ".inp"), "\n__ggml_vocab_test__\n");
  const auto lines = split_texts(read_file(path + ".out"), "\n");
  ASSERT_GE(lines.size(), texts.size() - 1);
  for (size_t index = 0; index < texts.size() && index < lines.size(); ++index) {
    const std::vector<TokenId> ids = tokenizer.encode(texts[index]);
    EXPECT_EQ(ids, parse_ids(lines[index])) << texts[index];
    EXPECT_EQ(tokenizer.decode(ids), texts[index]);
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabs, VocabFixture,
                         testing::Values("gpt-2", "llama-spm", "phi-3", "starcoder", "mpt", "falcon", "deepseek-llm",
                                         "deepseek-coder"));

TEST(Gpt2Fixture, DecodingUndoesEncoding) {
  const std::string path = environment_options().fixtures + "/vocab/ggml-vocab-gpt-2.gguf";
  if (lacks_file(path)) return;
  const gguf::File file(path);
  const Tokenizer tokenizer(model::read_vocab(file));
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (auto count = random() % 40; count > 0; --count) {
      constexpr char32_t kEnds[] = {0x80, 0x250, 0xD800, 0x110000};
      auto character = static_cast<char32_t>(random() % kEnds[random() % 4]);
      if (character >= 0xD800 && character < 0xE000) character = ' ';
      append_utf8(text, character);
    }
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

}  // namespace
}  // namespace minfer::tokenizer
