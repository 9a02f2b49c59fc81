// Session files: a sequence's tokens and KV pages to a file and back, so that a conversation goes on without its prompt
// being computed again. Resuming equals never having stopped, bit for bit, as the pages are saved as they lie in the
// store. A file is for one model, one pair of KV formats and one page layout; anything else is refused by name. The
// format is docs/formats/session-file.md. The engine's thread makes all calls.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/kv/sequence.hpp"
#include "gguf/reader.hpp"
#include "graph/backend.hpp"
#include "model/model.hpp"

namespace minfer::engine {

// Which model a file is of.
struct ModelIdentity {
  std::string name;          // general.name; empty where there is none
  std::string architecture;  // general.architecture
  // XXH3-128 over all metadata, the names, types, shapes and offsets of all tensors, and a few bytes of each tensor's
  // data (models that differ by training alone have equal headers).
  std::array<uint64_t, 2> hash{};
  int64_t vocabulary = 0;  // ids are below it
};

// Reads some bytes of each tensor. `long_rope`: keys are rotated by the factors of a long context
// (model::Rope::is_long), which those of a short one don't fit.
ModelIdentity identify_model(const gguf::File& file, int64_t vocabulary, bool long_rope = false);
// The same of a model run with so large a context, and with its adapters and their scales, which the name tells: what a
// session is of, where no request says otherwise.
ModelIdentity identify_model(const model::Model& model, int64_t context);

// What sessions are saved from and loaded into. The spec is the cache's.
struct SessionTarget {
  const ModelIdentity& model;
  const graph::KvSpec& spec;
  KvCache& cache;
};

// Writes `path` by way of a temporary file beside it, which is forced to the disk and renamed; a failure leaves neither
// a temporary file nor a changed `path`. `pending` are the tokens that follow the sequence's and have not run: the one
// drawn last, what is left of a prompt. Errors: io.
void save_session(const std::string& path, const Sequence& sequence, std::span<const int32_t> pending,
                  const SessionTarget& target);

// Restores into an empty sequence; returns the pending tokens, which are to run next. The file is verified whole first:
// an error leaves the sequence empty and the cache as it was. Errors, which name the field, what was found and what was
// expected: io where it can't be read, invalid_input where it is damaged or no session file, unsupported where it is of
// another version, model, KV format or layout, or longer than the context, out_of_memory where the pages don't suffice.
std::vector<int32_t> load_session(const std::string& path, Sequence& sequence, const SessionTarget& target);
// The same for the bytes of a file; `name` is for errors.
std::vector<int32_t> load_session(const std::string& name, std::span<const std::byte> bytes, Sequence& sequence,
                                  const SessionTarget& target);

// Looks at what the header says of the model and the cache, so that a session of another one is refused before its
// weights are loaded: those errors of load_session that need no cache. The spec is that of the model's cache.
void check_session(const std::string& path, const ModelIdentity& model, const graph::KvSpec& spec);

// The tokens of a file, pending ones included, by its header alone, so that their pages can be waited for; 0 where it
// can't be read or is none of this version: load_session says what is wrong.
int64_t peek_session_tokens(const std::string& path);

}  // namespace minfer::engine
