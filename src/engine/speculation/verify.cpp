// Row by row, while the draw is the guess. See verify.hpp.
#include "engine/speculation/verify.hpp"

#include "base/error.hpp"

namespace minfer::engine {

Verdict verify(Sampler& sampler, std::span<const float> logits, const Draft& draft,
               const std::function<bool(int32_t)>& ends) {
  const size_t drafted = draft.tokens.size();
  const size_t vocabulary = logits.size() / (1 + drafted);
  check(logits.size() == vocabulary * (1 + drafted), "logits that are not one row a token");
  for (size_t row = 0;; ++row) {
    const auto mine = logits.subspan(row * vocabulary, vocabulary);
    const bool rejects = row < drafted && draft.is_drawn();
    const int32_t token =
        rejects ? sampler.sample_drafted(mine, draft.tokens[row], draft.drawn_from(row)) : sampler.sample(mine);
    sampler.accept_next(token);
    if (row == drafted || token != draft.tokens[row] || ends(token) || sampler.is_over())
      return {static_cast<int64_t>(row), token};
  }
}

}  // namespace minfer::engine
