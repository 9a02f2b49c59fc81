// What of a draft stands. The model has run a sequence's last token and the draft behind it, so that row i has the
// logits after the last token and i drafted ones. What comes out is as if nothing had been drafted:
//   a draft that was not drawn: each token is drawn by the sampler as ever and compared with the guess. The tokens are
//   those of plain decoding, one by one, whatever the sampler does (Mirostat too) and with the same seed;
//   a draft that was drawn: rejection sampling, which keeps more of it. The distribution is that of plain decoding, the
//   tokens of a seed are others.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/sampler/sampler.hpp"
#include "engine/speculation/proposer.hpp"

namespace minfer::engine {

struct Verdict {
  int64_t accepted;  // tokens of the draft that stand, all of them run by the model already
  int32_t next;      // the token after those, not run yet
};

// `logits`: [1 + drafted][vocabulary]. The sampler is told of the accepted tokens and of the next. Stops at a token
// for which `ends` is true, or with which the grammar is over: that one is `next` even where it was drafted, as nothing
// comes after it. Errors: those of Sampler::sample.
Verdict verify(Sampler& sampler, std::span<const float> logits, const Draft& draft,
               const std::function<bool(int32_t token)>& ends);

}  // namespace minfer::engine
