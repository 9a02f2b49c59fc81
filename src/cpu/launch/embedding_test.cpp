// Embedding rows: the right row, the factor, and the error of an id outside the vocabulary, on several threads.
#include "cpu/launch/embedding.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.hpp"

namespace minfer::cpu {
namespace {

// Element i of row id is 100 id + i.
const auto decode = [](int64_t id, float* target) {
  for (int i = 0; i < 37; ++i) target[i] = static_cast<float>(100 * id + i);
};

TEST(Embedding, GathersAndScalesRows) {
  const std::vector<int32_t> ids = {4, 0, 9, 4};
  for (const Isa isa : kAllIsas) {
    if (!isa_available(isa)) continue;
    for (const float factor : {1.0f, 0.5f}) {
      std::vector<float> out(4 * 37);
      ThreadPool pool(2);
      pool.run([&](Worker& worker) {
        launch_embedding(isa, worker,
                         {.ids = ids.data(), .rows = 4, .vocabulary = 10, .n = 37, .factor = factor, .out = out.data()},
                         decode);
      });
      for (int row = 0; row < 4; ++row) {
        for (int i = 0; i < 37; ++i) {
          ASSERT_EQ(out[static_cast<size_t>(row * 37 + i)], factor * static_cast<float>(100 * ids[row] + i));
        }
      }
    }
  }
}

TEST(Embedding, RefusesAnIdOutsideTheVocabulary) {
  for (const int32_t id : {-1, 10}) {
    std::vector<float> out(37);
    ThreadPool pool(2);
    const EmbeddingArgs args{.ids = &id, .rows = 1, .vocabulary = 10, .n = 37, .factor = 1.0f, .out = out.data()};
    EXPECT_THROW(pool.run([&](Worker& worker) { launch_embedding(Isa::scalar, worker, args, decode); }), Error);
  }
}

}  // namespace
}  // namespace minfer::cpu
