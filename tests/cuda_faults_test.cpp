// Every site of src/cuda/launch_sites.txt made to fail under a whole model: the failure is an error of that load or
// that step, names the site, and the process goes on: the same runner, and the model loaded anew, then give the tokens
// that they gave before. The tiny models' are transformers'. A scenario is a way to run a model; the table says which
// sites it is the one to reach. Needs a card: part of scripts/gpu-gate.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cuda_model_runs.hpp"

namespace minfer::test {
namespace {

using Tokens = std::vector<int32_t>;

constexpr size_t kSteps = 24;         // greedy tokens of a tiny model
constexpr int64_t kBatchTokens = 13;  // beyond the decode family's rows

Tokens greedy(engine::Runner& runner, engine::Sequence& sequence, std::span<const int32_t> prompt, size_t steps) {
  Tokens tokens;
  int32_t next = argmax(engine::append(runner, sequence, prompt));
  while (tokens.size() < steps) {
    tokens.push_back(next);
    next = argmax(engine::append(runner, sequence, {&next, 1}));
  }
  return tokens;
}

Tokens run_greedy(engine::Runner& runner, const Tokens& prompt) {
  engine::Sequence sequence(runner.cache());
  return greedy(runner, sequence, prompt, kSteps);
}

// The card draws, from logits that edits and a mask leave as they are.
Tokens run_drawn(engine::Runner& runner, const Tokens& prompt) {
  engine::Sequence sequence(runner.cache());
  int32_t next = argmax(engine::append(runner, sequence, prompt));
  Tokens tokens;
  const graph::LogitEdit edits[] = {{1, 0.0F, 0, 0.0F}};
  const std::vector<uint32_t> mask(static_cast<size_t>(runner.model().config().vocabulary + 31) / 32, ~0U);
  while (tokens.size() < kSteps) {
    tokens.push_back(next);
    if (!sequence.reserve(1)) fail(ErrorCode::internal, "no page");
    const int32_t output_rows[] = {0};
    const graph::SequenceStep steps[] = {sequence.step(0, 1)};
    const graph::RowDraw draws[] = {{.edits = edits, .mask = mask, .top_logprobs = 3}};
    runner.submit({{&next, 1}, output_rows, steps, draws});
    const graph::StepResult result = runner.wait();
    sequence.commit({&next, 1});
    next = result.drawn[0].id;
  }
  return tokens;
}

// Some tokens are taken out on the way, the later ones move down.
Tokens run_moved(engine::Runner& runner, const Tokens& prompt) {
  engine::Sequence sequence(runner.cache());
  Tokens tokens = greedy(runner, sequence, prompt, 4);
  if (!sequence.remove(5, 7)) fail(ErrorCode::internal, "no page");
  const Tokens more = greedy(runner, sequence, std::span(tokens).last(1), 8);
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

// A page goes to the host and back on the way.
Tokens run_saved(engine::Runner& runner, const Tokens& prompt) {
  engine::Sequence sequence(runner.cache());
  engine::append(runner, sequence, std::span(prompt).first(prompt.size() - 1));
  graph::KvStore& store = runner.cache().store();
  std::vector<std::byte> page(static_cast<size_t>(store.page_bytes(0)));
  store.read_page(0, sequence.pages(0)[0], sequence.length(), page);
  store.write_page(0, sequence.pages(0)[0], page);
  return greedy(runner, sequence, std::span(prompt).last(1), kSteps);
}

Tokens run_timed(engine::Runner& runner, const Tokens& prompt) {
  card().set_op_timing(true);
  try {
    Tokens tokens = run_greedy(runner, prompt);
    card().set_op_timing(false);
    return tokens;
  } catch (const Error&) {
    card().set_op_timing(false);
    throw;
  }
}

Tokens run_short(engine::Runner& runner, const Tokens& prompt) {
  engine::Sequence sequence(runner.cache());
  return greedy(runner, sequence, prompt, 3);
}

struct Scenario {
  const char* name;
  Tokens (*run)(engine::Runner& runner, const Tokens& prompt);
  bool is_golden;  // its tokens are transformers'
  bool fuse;
  bool split;  // the first layer on the CPU
  std::string
      model;  // a tiny one of F32, NAME.lora with an adapter; or SHAPE:MIX, a synthetic one, with a cache of f16
  std::vector<std::string> sites;
  bool is_synthetic() const { return model.find(':') != std::string::npos; }
  friend void PrintTo(const Scenario& row, std::ostream* out) { *out << row.name; }
};

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> rows = {
      {"Fused",
       run_greedy,
       true,
       true,
       false,
       "llama",
       {"attention/rope_append",
        "attention/simple",
        "executable/frequencies",
        "gemm/decode",
        "gemm/glu",
        "gemm/matmul",
        "graph/record",
        "graph/replay",
        "kv/clear",
        "kv/frequencies",
        "linear/decode",
        "linear/decode_glu",
        "linear/pack",
        "rows/embed",
        "rows/gather",
        "rows/rms_norm",
        "rows/rope_angles",
        "sampling/stage",
        "step/done",
        "step/result",
        "step/wait",
        "weights/copy",
        "weights/done",
        "weights/vector",
        "workspace/clear"}},
      {"Unfused",
       run_greedy,
       true,
       false,
       false,
       "llama",
       {"attention/kv_append", "attention/rope", "rows/add", "rows/glu"}},
      {"Drawn",
       run_drawn,
       true,
       true,
       false,
       "llama",
       {"sampling/choose", "sampling/tiles", "sampling/top", "step/masks"}},
      {"Moved", run_moved, false, true, false, "llama", {"attention/kv_move", "kv/move"}},
      {"Saved", run_saved, true, true, false, "llama", {"kv/read", "kv/write"}},
      {"Timed", run_timed, true, true, false, "llama", {"step/timed", "timing/record"}},
      {"Split", run_greedy, true, true, true, "llama", {"step/import"}},
      {"Experts",
       run_greedy,
       true,
       true,
       false,
       "qwen3moe",
       {"experts/entry", "experts/entry_glu", "experts/group", "experts/route", "experts/sum"}},
      {"Latent", run_greedy, true, true, false, "deepseek2", {"rows/join_heads"}},
      {"LayerNorms", run_greedy, true, true, false, "starcoder2", {"rows/activate", "rows/layer_norm"}},
      {"Adapted", run_greedy, false, true, false, "llama.lora", {"rows/adapter_scale"}},
      {"Scaled", run_greedy, true, true, false, "cohere2", {"rows/scale"}},
      {"QuantizedExperts",
       run_short,
       false,
       true,
       false,
       "qwen3-2b-a0.4b:q4_k_m",
       {"experts/tile", "experts/tile_glu"}},
      {"Quantized",
       run_short,
       false,
       true,
       false,
       "qwen3-0.6b:q4_k_m",
       {"attention/split", "attention/tile", "linear/batch", "linear/batch_glu"}},
  };
  return rows;
}

// Sites that no scenario reaches, and what makes them fail instead.
const std::map<std::string, std::string>& sites_elsewhere() {
  static const std::map<std::string, std::string> sites = {
      {"limits/dot8", "CudaFaultTable.MeasuringLimits"},
      {"limits/fill", "CudaFaultTable.MeasuringLimits"},
      {"limits/read", "CudaFaultTable.MeasuringLimits"},
      {"limits/wait", "CudaFaultTable.MeasuringLimits"},
      // Producers write what products read, but for heads that are no whole blocks.
      {"rows/convert", "RowsDevice.AnArmedFaultIsAnErrorOfItsSite"},
  };
  return sites;
}

// A scenario's model, which its runners share.
class Subject {
 public:
  explicit Subject(const Scenario& scenario) : scenario_(scenario) {
    if (scenario.is_synthetic()) file_.emplace(scenario.model);
    const std::string tiny = scenario.model.substr(0, scenario.model.find(".lora"));
    model_.emplace(gguf::File(file_ ? file_->path() : golden_path("tiny/" + tiny + ".gguf")));
    if (tiny != scenario.model) model_->add_adapter(gguf::File(golden_path("tiny/" + tiny + ".a.lora.gguf")), 1.0F);
    prompt_ = file_ ? some_ids(40, model_->config().vocabulary) : golden(tiny).prompt;
    if (scenario.split) cpu_ = device_factories().back().create({1, "scalar"});
  }

  std::unique_ptr<engine::Runner> load() {
    engine::RunnerOptions options =
        file_.has_value() ? fast_options(kContext, 64) : exact_options(kContext, kBatchTokens);
    options.fuse = scenario_.fuse;
    if (!scenario_.split) return std::make_unique<engine::Runner>(*model_, card(), options, nullptr);
    options.device_layers = {1, model_->config().layers - 1};
    graph::Backend* devices[] = {cpu_.get(), &card()};
    return std::make_unique<engine::Runner>(*model_, devices, options, nullptr);
  }

  Tokens run(engine::Runner& runner) const { return scenario_.run(runner, prompt_); }

 private:
  const Scenario& scenario_;
  std::optional<SyntheticFile> file_;
  std::optional<model::Model> model_;
  Tokens prompt_;
  std::unique_ptr<graph::Backend> cpu_;
};

Tokens expected_tokens(const Scenario& scenario, Subject& subject) {
  const Tokens tokens = subject.run(*subject.load());
  if (!scenario.is_golden) return tokens;
  Tokens expected = golden(scenario.model).greedy;
  expected.resize(kSteps);
  EXPECT_EQ(tokens, expected);
  return expected;
}

std::string arm_and_run(const std::string& site, const std::function<void()>& work) {
  failing_site() = site;
  std::string message;
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device);
    message = error.what();
  }
  failing_site().clear();
  return message;
}

class CudaFaults : public ::testing::TestWithParam<Scenario> {};

TEST_P(CudaFaults, AreErrorsOfTheirStepAndTheProcessGoesOn) {
  const Scenario& scenario = GetParam();
  Subject subject(scenario);
  const Tokens expected = expected_tokens(scenario, subject);
  for (const std::string& site : scenario.sites) {
    SCOPED_TRACE(site);
    std::unique_ptr<engine::Runner> runner;
    const std::string message = arm_and_run(site, [&] {
      runner = subject.load();
      subject.run(*runner);
    });
    EXPECT_EQ(message, "CUDA failed at " + site + ": a fault that a test asked for");
    if (runner != nullptr) {
      EXPECT_EQ(subject.run(*runner), expected);
    }
    runner = nullptr;
    EXPECT_EQ(subject.run(*subject.load()), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Scenarios, CudaFaults, ::testing::ValuesIn(scenarios()),
                         [](const auto& row) { return std::string(row.param.name); });

// Needs no card.
TEST(CudaFaultTable, HasEverySite) {
  std::set<std::string> table, known;
  for (const Scenario& scenario : scenarios()) known.insert(scenario.sites.begin(), scenario.sites.end());
  for (const auto& [site, test] : sites_elsewhere()) EXPECT_TRUE(known.insert(site).second) << site;
  std::ifstream file(std::string(MINFER_SOURCE_DIR) + "/src/cuda/launch_sites.txt");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with('#')) table.insert(line.substr(0, line.find(' ')));
  }
  EXPECT_EQ(known, table) << "give a new site to the scenario that reaches it";
}

TEST(CudaFaultTable, MeasuringLimits) {
  for (const auto& [site, test] : sites_elsewhere()) {
    if (!site.starts_with("limits/")) continue;
    EXPECT_EQ(arm_and_run(site, [] { card().measure_limits(); }),
              "CUDA failed at " + site + ": a fault that a test asked for");
  }
  EXPECT_GT(card().measure_limits().read_bytes_per_second, 1e10);
}

// The tiny models' scenarios without faults: few steps, for compute-sanitizer.
std::vector<Scenario> tiny_scenarios() {
  std::vector<Scenario> rows = scenarios();
  std::erase_if(rows, [](const Scenario& row) { return row.is_synthetic(); });
  return rows;
}

class CudaScenarios : public ::testing::TestWithParam<Scenario> {};

TEST_P(CudaScenarios, GiveTheirTokens) {
  Subject subject(GetParam());
  const Tokens expected = expected_tokens(GetParam(), subject);
  EXPECT_EQ(subject.run(*subject.load()), expected);
}

INSTANTIATE_TEST_SUITE_P(Tiny, CudaScenarios, ::testing::ValuesIn(tiny_scenarios()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace minfer::test
