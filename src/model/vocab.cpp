// Vocabulary metadata. See vocab.hpp. Key names: ggml's docs/gguf.md.
#include "model/vocab.hpp"

#include "base/error.hpp"

namespace minfer::model {
namespace {

std::vector<std::string_view> strings_of(const gguf::StringArray& strings) {
  std::vector<std::string_view> views;
  views.reserve(strings.size());
  for (const std::string_view text : strings) views.push_back(text);
  return views;
}

}  // namespace

tokenizer::VocabData read_vocab(const gguf::File& file) {
  const gguf::Metadata& metadata = file.metadata();
  const auto model = metadata.find_string("tokenizer.ggml.model");
  if (!model || *model == "no_vocab" || *model == "none") {
    fail(ErrorCode::unsupported, "{}: the file has no vocabulary (tokenizer.ggml.model); text needs one",
         metadata.source());
  }
  tokenizer::VocabData data;
  data.model = *model;
  data.pre = metadata.find_string("tokenizer.ggml.pre").value_or("");
  data.tokens = strings_of(metadata.require_strings("tokenizer.ggml.tokens"));
  data.scores = metadata.find_f32_array("tokenizer.ggml.scores").value_or(std::vector<float>());
  data.types = metadata.find_i32_array("tokenizer.ggml.token_type").value_or(std::vector<int32_t>());
  if (const auto merges = metadata.find_strings("tokenizer.ggml.merges")) data.merges = strings_of(*merges);
  data.bos = metadata.find_i64("tokenizer.ggml.bos_token_id");
  data.eos = metadata.find_i64("tokenizer.ggml.eos_token_id");
  data.eot = metadata.find_i64("tokenizer.ggml.eot_token_id");
  data.eom = metadata.find_i64("tokenizer.ggml.eom_token_id");
  data.unk = metadata.find_i64("tokenizer.ggml.unknown_token_id");
  data.pad = metadata.find_i64("tokenizer.ggml.padding_token_id");
  data.add_bos = metadata.find_bool("tokenizer.ggml.add_bos_token");
  data.add_eos = metadata.find_bool("tokenizer.ggml.add_eos_token");
  data.add_space_prefix = metadata.find_bool("tokenizer.ggml.add_space_prefix");
  return data;
}

}  // namespace minfer::model
