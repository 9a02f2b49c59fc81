// Gathers embedding rows, one row a chunk. See embedding.hpp.
#include "cpu/launch/embedding.hpp"

#include "base/error.hpp"
#include "cpu/launch/rows_kernels.hpp"

namespace minfer::cpu {

void launch_embedding(Isa isa, Worker& worker, const EmbeddingArgs& args,
                      FunctionRef<void(int64_t id, float* target)> decode_row) {
  const RowKernels& kernels = row_kernels(isa);
  check(args.n > 0, "embedding needs elements");
  worker.parallel_for(args.rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t id = args.ids == nullptr ? 0 : args.ids[row];
      check(id >= 0 && id < args.vocabulary, "embedding of a token outside the vocabulary");
      float* out = args.out + row * args.n;
      decode_row(id, out);
      if (args.factor != 1.0f) kernels.scale(out, args.factor, args.n, out);
    }
  });
}

}  // namespace minfer::cpu
