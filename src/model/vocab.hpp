// The vocabulary of a model file as the tokenizer takes it: metadata keys "tokenizer.ggml.*" to VocabData. Token texts
// are views into the file, which must outlive the tokenizer made from them.
#pragma once

#include <string_view>

#include "gguf/reader.hpp"
#include "tokenizer/vocab.hpp"

namespace minfer::model {

// With `pre`, that pre-tokenizer rule instead of the one that the file names.
// Errors: unsupported where the file has no vocabulary; invalid_input for a key of a wrong type.
tokenizer::VocabData read_vocab(const gguf::File& file, std::string_view pre = {});

}  // namespace minfer::model
