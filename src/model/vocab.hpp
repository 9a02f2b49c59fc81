// The vocabulary of a model file as the tokenizer takes it: metadata keys "tokenizer.ggml.*" to VocabData. Token texts
// are views into the file, which must outlive the tokenizer made from them.
#pragma once

#include "gguf/reader.hpp"
#include "tokenizer/vocab.hpp"

namespace minfer::model {

// Errors: unsupported where the file has no vocabulary; invalid_input for a key of a wrong type.
tokenizer::VocabData read_vocab(const gguf::File& file);

}  // namespace minfer::model
