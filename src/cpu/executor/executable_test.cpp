// Steps that name rows, positions or pages which are not there end in an error, not in memory of others: the executable
// is the last place that knows all counts. A graph of one attention layer on the scalar and the best kernels.
#include "cpu/executor/executable.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/test_support.hpp"
#include "cpu/executor/cpu_backend.hpp"
#include "graph/builder.hpp"

namespace minfer::cpu {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kWidth = 32, kVocabulary = 40, kHeadSize = 16, kWindow = 32;

// A cache of 3 pages in the group of layer 0 and of 4 in that of layer 1, which has a window of 32.
class Steps : public ::testing::TestWithParam<const char*> {
 protected:
  Steps() : device_(create_cpu_backend({1, GetParam()})), table_(kVocabulary * kWidth, 0.25F) {
    spec_.layers = {{1, kHeadSize, kHeadSize, 0, {}}, {1, kHeadSize, kHeadSize, kWindow, {}}};
    spec_.groups = {{0, {0}, 3}, {kWindow, {1}, 4}};
    spec_.key_format = spec_.value_format = graph::KvFormat::f32;
    spec_.sequence_tokens = 192;
    shapes_ = {{"table", kVocabulary, kWidth}, {"q", 2 * kHeadSize, kWidth}, {"k", kHeadSize, kWidth}};
    std::vector<graph::WeightSource> sources;
    for (const graph::WeightShape& shape : shapes_) {
      const auto bytes = std::as_bytes(std::span(table_)).first(static_cast<size_t>(shape.rows * shape.cols * 4));
      const auto role = shape.name == "table" ? graph::WeightRole::tied_embedding : graph::WeightRole::matrix;
      sources.push_back({shape, tensor::DType::f32, role, bytes, {}, {}});
    }
    weights_ = device_->load_weights(sources, {});
    kv_ = device_->create_kv_store(spec_);
    graph::Graph graph = model();
    const auto bytes = [&](const graph::ValueType& type, int64_t rows) { return device_->value_bytes(type, rows); };
    graph::MemoryPlan plan = graph::plan_memory(graph, bytes);
    workspace_ = device_->create_workspace(plan.arena_bytes, device_->scratch_bytes(graph, spec_));
    executable_ = device_->compile(std::move(graph), std::move(plan), *weights_, *kv_, *workspace_);
  }

  graph::Graph model() const {
    graph::Builder b(shapes_, {8, 4});
    graph::ValueId x = b.embed(b.input(graph::Input::token_ids), b.weight("table"), 1.0F);
    for (const int32_t layer : {0, 1}) {
      const graph::ValueId q = b.linear(x, b.weight("q")), k = b.linear(x, b.weight("k"));
      x = b.attention(q, b.kv_append(k, k, layer),
                      {layer, 2, 1, kHeadSize, kHeadSize, 0.25F, layer == 0 ? 0 : kWindow, 0.0F});
    }
    return b.finish(b.linear(b.gather_rows(x, b.input(graph::Input::output_rows)), b.weight("table")));
  }

  // Three rows of one sequence.
  std::string run(int64_t first_position, std::vector<int32_t> outputs, std::vector<int32_t> pages,
                  std::vector<int32_t> window_pages) {
    const std::vector<int32_t> ids = {1, 2, 3};
    const graph::SequenceStep sequence[] = {{0, 3, first_position, {pages, window_pages}}};
    return error_of([&] {
      executable_->submit({ids, outputs, sequence}, {});
      const auto logits = executable_->wait().logits;
      EXPECT_EQ(logits.size(), outputs.size() * kVocabulary);
    });
  }

  std::unique_ptr<graph::Backend> device_;
  std::vector<float> table_;
  graph::KvSpec spec_;
  std::vector<graph::WeightShape> shapes_;
  std::unique_ptr<graph::WeightSet> weights_;
  std::unique_ptr<graph::KvStore> kv_;
  std::unique_ptr<graph::Workspace> workspace_;
  std::unique_ptr<graph::Executable> executable_;
};

TEST_P(Steps, WholeOnesRun) {
  EXPECT_EQ(run(0, {0, 2}, {2}, {3}), "no error");
  EXPECT_EQ(run(3, {}, {2}, {3}), "no error");
  EXPECT_EQ(run(62, {2}, {2, 0}, {3, 1}), "no error");
  EXPECT_EQ(run(189, {2}, {2, 0, 1}, {-1, -1, 1}), "no error") << "pages before the window may be anything";
}

TEST_P(Steps, OutputRowsAreThoseOfTheStep) {
  EXPECT_EQ(run(0, {3}, {0}, {0}), "internal: internal error: output row 3 of a step of 3 rows");
  EXPECT_EQ(run(0, {0, 1 << 30}, {0}, {0}), "internal: internal error: output row 1073741824 of a step of 3 rows");
  EXPECT_EQ(run(0, {-1}, {0}, {0}), "internal: internal error: output row -1 of a step of 3 rows");
}

TEST_P(Steps, PagesAreThoseOfTheStore) {
  EXPECT_EQ(run(0, {2}, {3}, {0}), "internal: internal error: page 0 of a sequence is 3; KV group 0 has 3 pages");
  EXPECT_EQ(run(0, {2}, {0}, {4}), "internal: internal error: page 0 of a sequence is 4; KV group 1 has 4 pages");
  EXPECT_EQ(run(0, {2}, {-1}, {0}), "internal: internal error: page 0 of a sequence is -1; KV group 0 has 3 pages");
  EXPECT_EQ(run(62, {2}, {0, 1 << 30}, {0, 1}),
            "internal: internal error: page 1 of a sequence is 1073741824; KV group 0 has 3 pages");
  EXPECT_THAT(run(130, {2}, {-1, 0, 1}, {0, 1, 2}), HasSubstr("page 0 of a sequence is -1")) << "a visible page";
  EXPECT_THAT(run(130, {2}, {0, 1, 2}, {-1, -1, 2}), HasSubstr("page 1 of a sequence is -1; KV group 1"))
      << "the first row sees from position 99 on";
  EXPECT_EQ(run(62, {2}, {0}, {0, 1}), "internal: internal error: a sequence of 65 tokens has 1 pages in KV group 0");
}

TEST_P(Steps, PositionsAreThoseOfTheContext) {
  EXPECT_EQ(run(190, {2}, {0, 1, 2, 0}, {0, 1, 2, 3}),
            "internal: internal error: 3 rows from row 0 of 3, at position 190 of at most 192");
  EXPECT_THAT(run(-1, {2}, {0}, {0}), HasSubstr("at position -1 of at most 192"));
  EXPECT_THAT(run(std::numeric_limits<int64_t>::max(), {2}, {0}, {0}), HasSubstr("of at most 192"));
}

INSTANTIATE_TEST_SUITE_P(Isas, Steps, ::testing::Values("scalar", ""),
                         [](const auto& row) { return *row.param == 0 ? "best" : row.param; });

TEST(CpuValueBytes, AreCheckedBeyond64Bits) {
  using graph::Format;
  EXPECT_EQ(cpu_value_bytes({Format::f32, graph::Rows::tokens, 100}, 3), 1200);
  EXPECT_THROW(cpu_value_bytes({Format::f32, graph::Rows::tokens, int64_t{1} << 40}, int64_t{1} << 30), Error);
  EXPECT_THROW(cpu_value_bytes({Format::q8, graph::Rows::tokens, int64_t{1} << 40}, int64_t{1} << 30), Error);
}

}  // namespace
}  // namespace minfer::cpu
