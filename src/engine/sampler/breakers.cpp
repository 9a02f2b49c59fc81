// One walk over the vocabulary. See breakers.hpp.
#include "engine/sampler/breakers.hpp"

#include <algorithm>

namespace minfer::engine {

std::vector<int32_t> dry_breaker_ids(std::span<const std::string> breakers, const tokenizer::Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  std::string text;
  const auto in_text = [&](const std::string& breaker) { return text.find(breaker) != std::string::npos; };
  for (size_t i = 0; i < tokenizer.vocab().size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    text.clear();
    tokenizer.append_token_bytes(id, text);
    if (std::any_of(breakers.begin(), breakers.end(), in_text)) ids.push_back(id);
  }
  return ids;
}

}  // namespace minfer::engine
