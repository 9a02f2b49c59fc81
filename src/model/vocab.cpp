// Vocabulary metadata. See vocab.hpp. Key names: ggml's docs/gguf.md, and those that files have beside (normalizer.*,
// seperator_token_id as it is spelt).
#include "model/vocab.hpp"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace minfer::model {
namespace {

std::vector<std::string_view> strings_of(const gguf::StringArray& strings) {
  std::vector<std::string_view> views;
  views.reserve(strings.size());
  for (const std::string_view text : strings) views.push_back(text);
  return views;
}

std::string_view raw_bytes(const gguf::Metadata& metadata, std::string_view key) {
  const gguf::Value* const value = metadata.find(key);
  if (value == nullptr) return {};
  const bool is_bytes = value->element_type == gguf::ValueType::u8 || value->element_type == gguf::ValueType::i8;
  if (value->type != gguf::ValueType::array || !is_bytes) {
    fail(ErrorCode::invalid_input, "{}: key '{}' at byte {} is {}; expected an array of u8 or i8", metadata.source(),
         key, value->offset_bytes, gguf::describe_type(*value));
  }
  return {reinterpret_cast<const char*>(value->payload.data()), value->payload.size()};
}

std::vector<float> read_scores(const gguf::Metadata& metadata) {
  constexpr std::string_view kKey = "tokenizer.ggml.scores";
  const gguf::Value* const value = metadata.find(kKey);
  if (value != nullptr && value->element_type == gguf::ValueType::i32) {
    const auto numbers = metadata.find_i32_array(kKey).value_or(std::vector<int32_t>());
    return {numbers.begin(), numbers.end()};
  }
  return metadata.find_f32_array(kKey).value_or(std::vector<float>());
}

bool names_phi3(const gguf::Metadata& metadata) {
  std::string name(metadata.find_string("general.name").value_or(""));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos;
}

// Files don't say which special tokens take the white space beside them; these are the models that publish such tokens.
void read_stripping(const gguf::Metadata& metadata, tokenizer::VocabData& data) {
  using tokenizer::TokenId;
  using tokenizer::TokenType;
  const std::string_view architecture = metadata.find_string("general.architecture").value_or("");
  const bool is_jina = data.pre == "jina-v2-de" || data.pre == "jina-v2-es" || data.pre == "jina-v2-code";
  std::string_view mask;
  if (is_jina || architecture == "nomic-bert-moe" || architecture == "jina-bert-v3") mask = "<mask>";
  if (data.pre == "modern-bert") mask = "[MASK]";
  const bool is_phi3 = data.model == "llama" && names_phi3(metadata);
  if (mask.empty() && !is_phi3) return;
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    const std::string_view text = data.tokens[id];
    if (!mask.empty() && text == mask) data.lstrip.push_back(static_cast<TokenId>(id));
    if (!is_phi3 || id >= data.types.size()) continue;
    const auto type = static_cast<TokenType>(data.types[id]);
    const bool is_special = type == TokenType::control || type == TokenType::user_defined;
    const bool keeps = text == "<s>" || text == "<unk>" || text == "<|endoftext|>";
    if ((is_special && !keeps) || text == "</s>") data.rstrip.push_back(static_cast<TokenId>(id));
  }
}

}  // namespace

tokenizer::VocabData read_vocab(const gguf::File& file, std::string_view pre) {
  const gguf::Metadata& metadata = file.metadata();
  const auto model = metadata.find_string("tokenizer.ggml.model");
  if (!model || *model == "no_vocab" || *model == "none") {
    fail(ErrorCode::unsupported, "{}: the file has no vocabulary (tokenizer.ggml.model); text needs one",
         metadata.source());
  }
  tokenizer::VocabData data;
  data.model = *model;
  const bool brings_its_rule = *model == "gemma4";
  if (!pre.empty()) {
    if (*model != "gpt2" && *model != "whitespace" && !brings_its_rule) {
      fail(ErrorCode::invalid_input,
           "{}: the pre-tokenizer rule '{}' was asked for, but only byte-level BPE has such rules and the file's "
           "tokenizer is '{}'; leave --pre out",
           metadata.source(), pre, *model);
    }
    data.pre = pre;
  } else if (!brings_its_rule) {
    data.pre = metadata.find_string("tokenizer.ggml.pre").value_or("");
  }
  data.tokens = strings_of(metadata.require_strings("tokenizer.ggml.tokens"));
  data.scores = read_scores(metadata);
  data.types = metadata.find_i32_array("tokenizer.ggml.token_type").value_or(std::vector<int32_t>());
  if (const auto merges = metadata.find_strings("tokenizer.ggml.merges")) data.merges = strings_of(*merges);
  data.bos = metadata.find_i64("tokenizer.ggml.bos_token_id");
  if (!data.bos) data.bos = metadata.find_i64("tokenizer.ggml.cls_token_id");
  data.eos = metadata.find_i64("tokenizer.ggml.eos_token_id");
  data.eot = metadata.find_i64("tokenizer.ggml.eot_token_id");
  data.eom = metadata.find_i64("tokenizer.ggml.eom_token_id");
  data.unk = metadata.find_i64("tokenizer.ggml.unknown_token_id");
  data.pad = metadata.find_i64("tokenizer.ggml.padding_token_id");
  data.sep = metadata.find_i64("tokenizer.ggml.seperator_token_id");
  data.add_bos = metadata.find_bool("tokenizer.ggml.add_bos_token");
  data.add_eos = metadata.find_bool("tokenizer.ggml.add_eos_token");
  data.add_sep = metadata.find_bool("tokenizer.ggml.add_sep_token");
  data.add_space_prefix = metadata.find_bool("tokenizer.ggml.add_space_prefix");
  data.remove_extra_whitespaces = metadata.find_bool("tokenizer.ggml.remove_extra_whitespaces");
  data.lowercase = metadata.find_bool("tokenizer.ggml.normalizer.lowercase");
  data.strip_accents = metadata.find_bool("tokenizer.ggml.normalizer.strip_accents");
  data.charsmap = raw_bytes(metadata, "tokenizer.ggml.precompiled_charsmap");
  read_stripping(metadata, data);
  return data;
}

}  // namespace minfer::model
