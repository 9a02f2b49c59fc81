// Token embedding: rows of the embedding matrix, decoded to f32 by a function of the matrix's own layout, times a
// factor (Gemma's sqrt(n); 1 for none). Called by every thread of a section with equal arguments; ends with a barrier.
#pragma once

#include <cstdint>

#include "base/thread_pool.hpp"
#include "cpu/runtime/isa.hpp"

namespace minfer::cpu {

struct EmbeddingArgs {
  const int32_t* ids;  // [rows], each from 0 to vocabulary - 1 (checked: Error{internal}); null: row 0 for all
  int64_t rows;
  int64_t vocabulary;
  int64_t n;
  float factor;
  float* out;  // [rows][n]
};
// decode_row(id, target) writes the n floats of row `id` of the matrix; called by any thread.
void launch_embedding(Isa isa, Worker& worker, const EmbeddingArgs& args,
                      FunctionRef<void(int64_t id, float* target)> decode_row);

}  // namespace minfer::cpu
