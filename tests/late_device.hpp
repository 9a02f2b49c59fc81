// A device for tests that computes as late as it may: the CPU, but steps are only noted when they are submitted, and
// run when they are waited for, or when something else is asked for that has to see them. It draws tokens itself, with
// the sampler's stages, so that the engine runs ahead of it. What it is given is copied at submission and never looked
// at again. Once warm it allocates nothing. Also it can be told to fail.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "engine/logprobs.hpp"
#include "engine/sampler/stages.hpp"
#include "graph/backend_test_support.hpp"

namespace minfer::test {

// What a row's edits, the counted token among them, make of logits, and what is drawn from those. Without XTC,
// Mirostat.
class PlainDrawer {
 public:
  graph::Drawn draw(std::span<const float> logits, const graph::RowDraw& row,
                    std::span<const graph::Drawn> drawn_before) {
    check(row.xtc_probability == 0 && row.mirostat == 0, "a draw beyond this test device");
    logits_.assign(logits.begin(), logits.end());
    edit(row, drawn_before);
    const auto best = std::max_element(logits_.begin(), logits_.end()) - logits_.begin();
    if (row.temperature == 0) return drawn(static_cast<int32_t>(best), logits);
    params_.typical_p = row.typical_p;
    params_.top_p = row.top_p;
    params_.min_p = row.min_p;
    params_.temperature = row.temperature;
    engine::SamplerState state{params_, {}, logits_, candidates_, random_, mu_};
    engine::select_top_k(state, row.top_k);
    engine::apply_typical(state);
    engine::apply_top_p(state);
    engine::apply_min_p(state);
    engine::apply_temperature(state);
    engine::softmax(candidates_);
    double sum = 0;
    int32_t id = candidates_.front().id;
    for (const engine::Candidate& candidate : candidates_) {
      if (candidate.p <= 0) continue;
      id = candidate.id;
      sum += candidate.p;
      if (row.uniform < sum) break;
    }
    return drawn(id, logits);
  }

  // As a row of graph::StepResult::top.
  void add_top(std::span<const float> logits, int32_t count, std::vector<graph::TokenLogprob>& top) {
    likeliest_.read(logits);
    for (size_t i = 0; i < static_cast<size_t>(graph::kMostTopLogprobs); ++i) {
      const bool asked = i < std::min(static_cast<size_t>(count), likeliest_.top().size());
      top.push_back(asked ? likeliest_.top()[i] : graph::TokenLogprob{-1, 1.0F});
    }
  }

 private:
  graph::Drawn drawn(int32_t id, std::span<const float> logits) {
    logprobs_.read(logits);
    return {id, graph::DrawStatus::ok, -1, logprobs_.of(logits[static_cast<size_t>(id)]), 0};
  }
  void edit(const graph::RowDraw& row, std::span<const graph::Drawn> drawn_before) {
    const bool counts = row.counted != graph::kNoOutput;
    const int32_t token = counts ? drawn_before[static_cast<size_t>(row.counted)].id : -1;
    bool found = false;
    for (graph::LogitEdit edit : row.edits) {
      if (edit.token == token) ++edit.count, found = true;
      apply(edit, row);
    }
    if (counts && !found) apply({token, 0.0F, 1, 0.0F}, row);
    for (size_t i = 0; i < logits_.size() && !row.mask.empty(); ++i) {
      if ((row.mask[i / 32] >> (i % 32) & 1) == 0) logits_[i] = -std::numeric_limits<float>::infinity();
    }
  }
  void apply(const graph::LogitEdit& edit, const graph::RowDraw& row) {
    float& logit = logits_[static_cast<size_t>(edit.token)];
    logit += edit.bias;
    if (edit.count > 0) {
      if (row.repeat != 1.0F) logit = logit > 0 ? logit / row.repeat : logit * row.repeat;
      logit -= static_cast<float>(edit.count) * row.frequency + row.presence;
    }
    logit -= edit.dry;
  }

  engine::SamplerParams params_;
  std::vector<float> logits_;
  std::vector<engine::Candidate> candidates_;
  engine::Logprobs logprobs_{0};
  engine::Logprobs likeliest_{graph::kMostTopLogprobs};
  std::mt19937_64 random_;
  float mu_ = 0;
};

// The steps that were submitted and not run, in order, and what the last one that ran has drawn.
class LateQueue {
 public:
  struct Step {
    graph::Executable* executable = nullptr;
    std::vector<int32_t> ids, outputs, pages;
    std::vector<graph::SequenceStep> sequences;
    std::vector<graph::RowDraw> draws;
    std::vector<graph::LogitEdit> edits;
    std::vector<std::vector<uint32_t>> masks;  // by draw
    std::vector<std::vector<float>> imports;   // of a part of a model
    std::vector<std::span<const float>> import_views;
    std::vector<float> logits;
    std::vector<graph::Drawn> drawn;
    std::vector<graph::TokenLogprob> top;
    bool done = false;
    bool fails = false;
  };

  LateQueue() {
    for (Step& step : steps_) step.pages.resize(kRoom), step.edits.resize(kRoom);
  }

  int64_t submitted = 0;
  int64_t ahead = 0;         // of those, behind one in flight
  int64_t fail_submit = -1;  // the step of this number can't be submitted
  int64_t fail_wait = -1;    // it fails when it is waited for

  void submit(graph::Executable& executable, const graph::StepData& data,
              std::span<const std::span<const float>> imports) {
    check(in_flight_ < graph::kMostStepsInFlight, "a third step in flight");
    check(in_flight_ == 0 || !(data.gives_logits() || at(0).draws.size() != at(0).outputs.size()),
          "logits of a step that is not alone");
    if (submitted++ == fail_submit) fail(ErrorCode::device, "the device fails at submission");
    ahead += in_flight_ > 0 ? 1 : 0;
    Step& step = at(in_flight_++);
    step.executable = &executable;
    copy(data, step);
    step.imports.resize(imports.size());
    step.import_views.clear();
    for (size_t i = 0; i < imports.size(); ++i) {
      step.imports[i].assign(imports[i].begin(), imports[i].end());
      step.import_views.emplace_back(step.imports[i]);
    }
    step.done = false;
    step.fails = submitted - 1 == fail_wait;
  }
  graph::StepResult wait(const graph::Executable& executable) {
    check(in_flight_ > 0 && at(0).executable == &executable, "a step that is not the earliest");
    if (!at(0).done) run(at(0));
    const Step& step = at(0);
    first_ = (first_ + 1) % steps_.size();
    --in_flight_;
    if (step.fails) fail(ErrorCode::device, "the device fails in a step");
    return {step.logits, step.drawn, step.top};
  }
  // Before anything that steps might change, or that changes what they read.
  void flush() {
    for (int64_t i = 0; i < in_flight_; ++i) {
      if (!at(i).done) run(at(i));
    }
  }

 private:
  static constexpr size_t kRoom = 4096;  // for page ids and edits, before anything is allocated

  Step& at(int64_t index) { return steps_[(first_ + static_cast<size_t>(index)) % steps_.size()]; }

  static void copy(const graph::StepData& data, Step& step) {
    step.ids.assign(data.token_ids.begin(), data.token_ids.end());
    step.outputs.assign(data.output_rows.begin(), data.output_rows.end());
    step.sequences.assign(data.sequences.begin(), data.sequences.end());
    step.draws.assign(data.draws.begin(), data.draws.end());
    size_t pages = 0, edits = 0;
    for (const auto& sequence : data.sequences) {
      for (const auto& of_group : sequence.pages) pages += of_group.size();
    }
    for (const auto& draw : data.draws) edits += draw.edits.size();
    step.pages.resize(std::max(pages, step.pages.size()));
    step.edits.resize(std::max(edits, step.edits.size()));
    pages = edits = 0;
    for (auto& sequence : step.sequences) {
      for (auto& of_group : sequence.pages) {
        std::copy(of_group.begin(), of_group.end(), step.pages.begin() + static_cast<std::ptrdiff_t>(pages));
        of_group = std::span(step.pages).subspan(pages, of_group.size());
        pages += of_group.size();
      }
    }
    step.masks.resize(std::max(step.masks.size(), step.draws.size()));
    for (size_t i = 0; i < step.draws.size(); ++i) {
      graph::RowDraw& draw = step.draws[i];
      step.masks[i].assign(draw.mask.begin(), draw.mask.end());
      draw.mask = step.masks[i];
      std::copy(draw.edits.begin(), draw.edits.end(), step.edits.begin() + static_cast<std::ptrdiff_t>(edits));
      draw.edits = std::span(step.edits).subspan(edits, draw.edits.size());
      edits += draw.edits.size();
    }
  }

  void run(Step& step) {
    for (int32_t& id : step.ids) {
      if (graph::is_drawn_token(id)) id = last_drawn_[static_cast<size_t>(graph::drawn_output(id))].id;
    }
    step.executable->submit({step.ids, step.outputs, step.sequences}, step.import_views);
    const auto logits = step.executable->wait().logits;
    step.logits.clear();
    step.drawn.clear();
    step.top.clear();
    const bool asks = std::any_of(step.draws.begin(), step.draws.end(),
                                  [](const graph::RowDraw& draw) { return draw.top_logprobs > 0; });
    if (step.draws.empty()) {
      step.logits.assign(logits.begin(), logits.end());
    } else {
      const size_t vocabulary = logits.size() / step.draws.size();
      for (size_t row = 0; row < step.draws.size(); ++row) {
        const auto mine = logits.subspan(row * vocabulary, vocabulary);
        step.drawn.push_back(drawer_.draw(mine, step.draws[row], last_drawn_));
        if (asks) drawer_.add_top(mine, step.draws[row].top_logprobs, step.top);
      }
    }
    last_drawn_.assign(step.drawn.begin(), step.drawn.end());
    step.done = true;
  }

  std::array<Step, 3> steps_;  // a result is valid until the next submission
  size_t first_ = 0;
  int64_t in_flight_ = 0;
  std::vector<graph::Drawn> last_drawn_;
  PlainDrawer drawer_;
};

class LateKvStore final : public graph::KvStore {
 public:
  LateKvStore(std::unique_ptr<graph::KvStore> store, LateQueue& queue) : inner(std::move(store)), queue_(queue) {}
  int64_t bytes() const override { return inner->bytes(); }
  std::string_view layout() const override { return inner->layout(); }
  int64_t page_bytes(int32_t group) const override { return inner->page_bytes(group); }
  void move(std::span<const graph::KvMove> moves) override {
    queue_.flush();
    inner->move(moves);
  }
  void read_page(int32_t group, int32_t page, int64_t tokens, std::span<std::byte> out) const override {
    queue_.flush();
    inner->read_page(group, page, tokens, out);
  }
  void write_page(int32_t group, int32_t page, std::span<const std::byte> in) override {
    queue_.flush();
    inner->write_page(group, page, in);
  }

  const std::unique_ptr<graph::KvStore> inner;

 private:
  LateQueue& queue_;
};

class LateDevice final : public graph::ForwardingBackend {
 public:
  explicit LateDevice(std::unique_ptr<graph::Backend> cpu) : ForwardingBackend(std::move(cpu)) {}
  bool draws() const override { return true; }
  std::unique_ptr<graph::KvStore> create_kv_store(const graph::KvSpec& spec) override {
    return std::make_unique<LateKvStore>(ForwardingBackend::create_kv_store(spec), queue);
  }
  std::unique_ptr<graph::Executable> compile(graph::Graph graph, graph::MemoryPlan plan,
                                             const graph::WeightSet& weights, graph::KvStore& kv,
                                             graph::Workspace& workspace) override {
    return std::make_unique<LateExecutable>(
        ForwardingBackend::compile(std::move(graph), std::move(plan), weights, *dynamic_cast<LateKvStore&>(kv).inner,
                                   workspace),
        queue);
  }

  LateQueue queue;

 private:
  class LateExecutable final : public graph::Executable {
   public:
    LateExecutable(std::unique_ptr<graph::Executable> inner, LateQueue& queue)
        : inner_(std::move(inner)), queue_(queue) {}
    // The queue gives the inner one's name: it is what runs the step.
    void submit(const graph::StepData& step, std::span<const std::span<const float>> imports) override {
      queue_.submit(*inner_, step, imports);
    }
    graph::StepResult wait() override { return queue_.wait(*inner_); }
    std::span<const float> exported(size_t index) const override { return inner_->exported(index); }

   private:
    std::unique_ptr<graph::Executable> inner_;
    LateQueue& queue_;
  };
};

}  // namespace minfer::test
