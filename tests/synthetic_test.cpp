// Synthetic models load and run, and with them every quantization type end to end: each mix's logits on the vector
// kernels against the scalar ones, which take f32 activations and the weights as the file has them. 8-bit activations
// cost some accuracy on these random weights; a wrong layout, scale or minimum costs all of it.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "model/synthetic.hpp"
#include "model_runs.hpp"

namespace minfer::test {
namespace {

constexpr double kBound = 0.05;  // of the largest logit; at most 0.026 was measured

class Synthetic : public ::testing::TestWithParam<std::string> {};

TEST_P(Synthetic, VectorKernelsAgreeWithScalarOnes) {
  const std::string path = ::testing::TempDir() + "minfer_synthetic_" + GetParam() + ".gguf";
  model::write_synthetic("smollm2-135m:" + GetParam(), path);
  const std::vector<int32_t> ids = {17, 4711, 31337};
  std::vector<float> exact;
  for (const std::string& isa : available_isas()) {
    Loaded loaded(path, isa, 0, exact_options(64, 8));
    engine::Sequence sequence(loaded.runner.cache());
    const auto logits = engine::append(loaded.runner, sequence, ids);
    ASSERT_EQ(logits.size(), 49152u);
    ASSERT_TRUE(std::isfinite(largest_magnitude(logits)));
    ASSERT_GT(largest_magnitude(logits), 0);
    if (exact.empty()) exact.assign(logits.begin(), logits.end());
    EXPECT_LE(relative_error(logits, exact), kBound) << isa;
    fmt::print("{} {}: {:.4f}\n", GetParam(), isa, relative_error(logits, exact));
  }
  std::remove(path.c_str());
}

INSTANTIATE_TEST_SUITE_P(Mixes, Synthetic,
                         ::testing::Values("f16", "q8_0", "q6_k", "q5_k_m", "q5_0", "q5_1", "q4_k_m", "q4_0", "q4_1",
                                           "iq4_nl", "iq4_xs", "q3_k", "q2_k", "mxfp4"),
                         [](const auto& row) { return row.param; });

}  // namespace
}  // namespace minfer::test
