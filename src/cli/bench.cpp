// `minfer bench`: speed of prefill and decode, a row a test: pp256 (a prompt of 256 tokens), tg32 (32 tokens decoded
// one by one), tg32@d2048 (the same with 2048 tokens in the cache), tg32@b8 (8 streams together, all their tokens).
// Each is measured -r times after one run to warm up; tokens are random. The limits of the machine are measured in the
// same run, and each row says which fraction of them it reached.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "cli/command.hpp"
#include "cli/interrupt.hpp"
#include "cli/io.hpp"
#include "cli/model_options.hpp"
#include "cli/op_timing.hpp"
#include "cli/usage.hpp"
#include "engine/forward.hpp"
#include "engine/work.hpp"
#include "model/synthetic.hpp"
#include "model/weight_check.hpp"

namespace minfer::cli {
namespace {

constexpr int64_t kMaxBenchTokens = 1 << 20;

struct Options {
  ModelOptions model;
  std::string synthetic;
  std::string keep;
  std::vector<int64_t> prompts = {256};
  std::vector<int64_t> generations = {32};
  std::vector<int64_t> depths = {0};
  std::vector<int64_t> parallel = {1};
  int repetitions = 3;
  std::string output = "md";
};

struct Row {
  std::string name;
  double tokens_per_second = 0;
  double stddev = 0;
  double fraction_of_limit = 0;
};

namespace fs = std::filesystem;

// Leaves no part of a file behind.
void write_model(const std::string& what, const fs::path& path) {
  try {
    model::write_synthetic(what, path.string());
  } catch (const Error& error) {
    std::error_code ignored;
    fs::remove(path, ignored);
    if (error.code() == ErrorCode::invalid_input) throw UsageError(error.what());
    throw;
  }
}

// The file of --synthetic: kept under the name of --keep, else in the temporary folder, where its name is gone as soon
// as it is open.
gguf::File open_synthetic(const Options& options) {
  if (!options.keep.empty()) {
    std::error_code ignored;  // a name that can't be looked at can't be written either, and says so
    if (fs::exists(options.keep, ignored))
      throw UsageError(fmt::format("--keep {}: the file exists already", options.keep));
    write_model(options.synthetic, options.keep);
    return gguf::File(options.keep);
  }
  const fs::path path =
      fs::temp_directory_path() /
      fmt::format("minfer-synthetic-{:016x}.gguf", (uint64_t{std::random_device{}()} << 32) | std::random_device{}());
  write_model(options.synthetic, path);
  gguf::File file(path.string());
  std::error_code error;
  fs::remove(path, error);
  if (error) fail(ErrorCode::io, "{}: can't remove: {}", path.string(), error.message());
  return file;
}

class Bench {
 public:
  Bench(LoadedModel& loaded, const graph::DeviceLimits& limits, int repetitions, bool op_timing)
      : loaded_(loaded), limits_(limits), repetitions_(repetitions), op_timing_(op_timing), random_(1) {
    set_op_timing(loaded_, false);  // on in measured runs only
  }

  Row prefill(int64_t tokens, int64_t depth) {
    const double limit = engine::prefill_limit_seconds(loaded_.model, device(), limits_, tokens, depth);
    return measure(fmt::format("pp{}{}", tokens, depth_suffix(depth)), tokens, depth, 1, limit,
                   [&](std::span<engine::Sequence> sequences) {
                     check_logits(engine::append(*loaded_.runner, sequences[0], random_tokens(tokens), interrupted));
                   });
  }

  // All streams' tokens a second.
  Row decode(int64_t tokens, int64_t depth, int64_t streams) {
    double limit = 0;
    for (int64_t i = 0; i < tokens; ++i) limit += step_limit_seconds(depth + i, streams);
    const std::string suffix = streams == 1 ? "" : fmt::format("@b{}", streams);
    return measure(fmt::format("tg{}{}{}", tokens, depth_suffix(depth), suffix), tokens, depth, streams, limit,
                   [&](std::span<engine::Sequence> sequences) {
                     for (int64_t i = 0; i < tokens; ++i) {
                       if (interrupted()) fail(ErrorCode::cancelled, "cancelled after {} tokens", i);
                       step(sequences);
                     }
                     while (loaded_.runner->in_flight() > 0) take_step();
                   });
  }

 private:
  static std::string depth_suffix(int64_t depth) { return depth == 0 ? "" : fmt::format("@d{}", depth); }
  const graph::Backend& device() const { return loaded_.runner->main_device(); }

  std::vector<int32_t> random_tokens(int64_t count) {
    std::vector<int32_t> ids;
    const uint64_t vocabulary = static_cast<uint64_t>(loaded_.model.config().vocabulary);
    for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>(random_() % vocabulary));
    return ids;
  }

  // Weights are read once for all streams, the cache of each by itself; or the arithmetic is what limits.
  double step_limit_seconds(int64_t depth, int64_t streams) const {
    const double reading =
        engine::decode_limit_seconds(loaded_.model, device(), limits_, loaded_.runner->options(), depth, streams);
    const double computing = engine::prefill_limit_seconds(loaded_.model, device(), limits_, 1, depth);
    return std::max(reading, static_cast<double>(streams) * computing);
  }

  // One random token more in each sequence. Steps overlap as a user's do: one is submitted while another runs.
  void step(std::span<engine::Sequence> sequences) {
    const auto ids = random_tokens(static_cast<int64_t>(sequences.size()));
    std::vector<int32_t> rows;
    std::vector<graph::SequenceStep> steps;
    for (engine::Sequence& sequence : sequences) {
      if (!sequence.reserve(1)) fail(ErrorCode::internal, "internal error: bench planned too few KV pages");
      rows.push_back(static_cast<int32_t>(rows.size()));
      steps.push_back(sequence.step(static_cast<int64_t>(steps.size()), 1));
    }
    // Greedy, as a user's step would end: on a device that draws, only ids come back.
    const std::vector<graph::RowDraw> draws(loaded_.runner->draws() ? rows.size() : 0);
    loaded_.runner->submit({ids, rows, steps, draws});
    const int64_t most = loaded_.runner->runs_ahead() ? graph::kMostStepsInFlight - 1 : 0;
    while (loaded_.runner->in_flight() > most) take_step();
    for (size_t i = 0; i < sequences.size(); ++i) sequences[i].commit(std::span(ids).subspan(i, 1));
  }

  void take_step() {
    const graph::StepResult result = loaded_.runner->wait();
    check_logits(result.logits);
    for (const graph::Drawn& drawn : result.drawn) {
      if (drawn.status != graph::DrawStatus::ok) fail_broken("no usable logits");
    }
  }

  // In warm-up only: a pass over the logits takes its time.
  void check_logits(std::span<const float> logits) const {
    if (!warms_up_) return;
    for (const float logit : logits) {
      if (!std::isfinite(logit)) fail_broken(std::isnan(logit) ? "NaN as a logit" : "infinity as a logit");
    }
  }

  [[noreturn]] void fail_broken(std::string_view found) const {
    fail(ErrorCode::invalid_input, "{}: the model gave {}; its weights are broken, and its speed would say nothing; {}",
         loaded_.model.file().metadata().source(), found, model::describe_broken_weights(loaded_.model));
  }

  Row measure(std::string name, int64_t tokens, int64_t depth, int64_t streams, double limit_seconds,
              const std::function<void(std::span<engine::Sequence>)>& work) {
    std::vector<double> rates;
    for (int run = 0; run <= repetitions_; ++run) {
      if (interrupted()) fail(ErrorCode::cancelled, "cancelled in {}", name);
      // Each stream's cache is its own: a fork would let them share what they read.
      std::vector<engine::Sequence> sequences;
      for (int64_t i = 0; i < streams; ++i) {
        engine::Sequence& sequence = sequences.emplace_back(loaded_.runner->cache());
        if (depth > 0) engine::append(*loaded_.runner, sequence, random_tokens(depth), interrupted);
      }
      set_op_timing(loaded_, op_timing_ && run > 0);
      warms_up_ = run == 0;
      const auto start = std::chrono::steady_clock::now();
      work(sequences);
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      set_op_timing(loaded_, false);
      if (run > 0) rates.push_back(static_cast<double>(tokens * streams) / seconds);  // the first run warms up
    }
    double mean = 0, variance = 0;
    for (const double rate : rates) mean += rate / static_cast<double>(rates.size());
    for (const double rate : rates) variance += (rate - mean) * (rate - mean);
    const double stddev = rates.size() > 1 ? std::sqrt(variance / static_cast<double>(rates.size() - 1)) : 0.0;
    return {std::move(name), mean, stddev, mean * limit_seconds / static_cast<double>(tokens * streams)};
  }

  LoadedModel& loaded_;
  const graph::DeviceLimits& limits_;
  int repetitions_;
  bool op_timing_;
  bool warms_up_ = false;
  std::mt19937_64 random_;
};

std::string limits_text(const graph::DeviceLimits& limits) {
  return fmt::format("limits: read {:.1f} GB/s, 8-bit dots {:.0f} GOPS, float multiply-adds {:.0f} GFLOP/s",
                     limits.read_bytes_per_second / 1e9, limits.dot8_ops_per_second / 1e9,
                     limits.float_ops_per_second / 1e9);
}

// In quotes, each quote doubled (RFC 4180).
std::string csv_field(std::string_view text) {
  std::string field = "\"";
  for (const char c : text) field += c == '"' ? std::string("\"\"") : std::string(1, c);
  return field + "\"";
}

std::string format_rows(const std::vector<Row>& rows, const Options& options, const LoadedModel& loaded,
                        const graph::DeviceLimits& limits) {
  const std::string model = options.synthetic.empty() ? options.model.model : options.synthetic;
  const graph::Backend& device = loaded.runner->main_device();
  if (options.output == "json") {
    nlohmann::ordered_json json = {{"model", model},
                                   {"device", device.name()},
                                   {"description", device.description()},
                                   {"limits",
                                    {{"read_bytes_per_second", limits.read_bytes_per_second},
                                     {"dot8_ops_per_second", limits.dot8_ops_per_second},
                                     {"float_ops_per_second", limits.float_ops_per_second}}},
                                   {"rows", nlohmann::ordered_json::array()}};
    for (const Row& row : rows) {
      json["rows"].push_back({{"name", row.name},
                              {"tokens_per_second", row.tokens_per_second},
                              {"stddev", row.stddev},
                              {"fraction_of_limit", row.fraction_of_limit}});
    }
    return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  const bool csv = options.output == "csv";
  std::string text =
      csv ? "name,tokens_per_second,stddev,fraction_of_limit,model,device,description,limit_read_bytes_per_second,"
            "limit_dot8_ops_per_second,limit_float_ops_per_second\n"
          : fmt::format("{}: {}\n{}\n\n| name | tokens_per_second | stddev | fraction_of_limit |\n|---|---|---|---|\n",
                        model, device.description(), limits_text(limits));
  for (const Row& row : rows) {
    text += csv ? fmt::format("{},{:.3f},{:.3f},{:.4f},{},{},{},{:.0f},{:.0f},{:.0f}\n", row.name,
                              row.tokens_per_second, row.stddev, row.fraction_of_limit, csv_field(model), device.name(),
                              csv_field(device.description()), limits.read_bytes_per_second, limits.dot8_ops_per_second,
                              limits.float_ops_per_second)
                : fmt::format("| {} | {:.2f} | {:.2f} | {:.3f} |\n", row.name, row.tokens_per_second, row.stddev,
                              row.fraction_of_limit);
  }
  return text;
}

// The first of equal ones: a number given twice is one test.
void drop_repeated(std::vector<int64_t>& numbers) {
  std::vector<int64_t> kept;
  for (const int64_t number : numbers) {
    if (std::find(kept.begin(), kept.end(), number) == kept.end()) kept.push_back(number);
  }
  numbers = std::move(kept);
}

int run_bench(Options options) {
  for (auto* numbers : {&options.prompts, &options.generations, &options.depths, &options.parallel}) {
    drop_repeated(*numbers);
  }
  if (options.model.model.empty() == options.synthetic.empty()) {
    throw UsageError("give a MODEL or --synthetic SHAPE:TYPE");
  }
  const auto longest = [](const std::vector<int64_t>& counts) {
    return counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  };
  if (options.synthetic.empty() && !options.keep.empty()) throw UsageError("--keep goes with --synthetic");
  const bool has_tests = longest(options.prompts) + longest(options.generations) > 0;
  if (!has_tests && options.keep.empty()) throw UsageError("no test: both -p and -n are 0");
  const int64_t context = longest(options.depths) + std::max(longest(options.prompts), longest(options.generations));
  if (options.model.context == 0) options.model.context = std::max<int64_t>(context, 1);
  if (options.model.context < context) {
    throw UsageError(fmt::format("-c {} is too small for these tests; they need {}", options.model.context, context));
  }
  options.model.sequences = longest(options.parallel);
  if (options.model.batch != 0 && options.model.batch < options.model.sequences) {
    throw UsageError(fmt::format("--batch-tokens {}: a step of --parallel {} has {} tokens", options.model.batch,
                                 options.model.sequences, options.model.sequences));
  }
  gguf::File file = options.synthetic.empty() ? gguf::File(find_model(options.model.model)) : open_synthetic(options);
  if (!has_tests) return 0;
  options.model.measures_limits = true;
  LoadedModel loaded([&file] { return std::move(file); }, options.model);
  load_weights(loaded, options.model, options.model.context);
  const graph::DeviceLimits limits = loaded.limits.at(loaded.runner->main_device().name());
  Bench bench(loaded, limits, options.repetitions, options.model.op_timing);
  std::vector<Row> rows;
  for (const int64_t depth : options.depths) {
    for (const int64_t tokens : options.prompts) {
      if (tokens > 0) rows.push_back(bench.prefill(tokens, depth));
    }
    for (const int64_t tokens : options.generations) {
      for (const int64_t streams : options.parallel) {
        if (tokens > 0) rows.push_back(bench.decode(tokens, depth, streams));
      }
    }
  }
  write_stdout(format_rows(rows, options, loaded, limits));
  if (options.model.op_timing) print_op_timing(loaded);
  return 0;
}

}  // namespace

std::function<int()> declare_bench(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_model_options(app, options->model, "what the tests need", false);
  const auto counts = [&](const std::string& flags, std::vector<int64_t>& values, const std::string& text,
                          int64_t least = 0, int64_t most = kMaxBenchTokens) {
    app.add_option_function<std::string>(
           flags, [&values](const std::string& list) { values = split_numbers(list); }, text)
        ->type_name("N,...")
        ->check(number_list(least, most))
        ->default_str(std::to_string(values.front()));
  };
  app.add_option("--synthetic", options->synthetic, "Random weights in place of MODEL, such as qwen3-0.6b:q4_k_m")
      ->type_name("SHAPE:TYPE");
  app.add_option("--keep", options->keep, "Write the synthetic model to FILE and keep it")->type_name("FILE");
  counts("-p,--prompt", options->prompts, "Prompt lengths; 0: none");
  counts("-n,--generate", options->generations, "Numbers of tokens to decode; 0: none");
  counts("-d,--depth", options->depths, "Tokens in the cache before each test");
  counts("--parallel", options->parallel, "Streams that decode together", 1, engine::kMaxSequences);
  app.add_option("-r,--repetitions", options->repetitions, "Measured runs a test")
      ->type_name("N")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  app.add_option("-o,--output", options->output, "Format: md, csv or json")
      ->type_name("FORMAT")
      ->check(one_of({"md", "csv", "json"}))
      ->capture_default_str();
  return [options] { return run_bench(*options); };
}

}  // namespace minfer::cli
