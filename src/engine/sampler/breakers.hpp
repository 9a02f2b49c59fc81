// What ends a repetition for DRY, given as texts: the tokens that have one of them in them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.hpp"

namespace minfer::engine {

// The ids of all tokens whose bytes have one of `breakers` (not empty texts) in them, ascending, as
// SamplerParams::dry_breakers wants them.
std::vector<int32_t> dry_breaker_ids(std::span<const std::string> breakers, const tokenizer::Tokenizer& tokenizer);

}  // namespace minfer::engine
