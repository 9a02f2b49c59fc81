// Queue, admission and the life of requests. See batcher.hpp; a step is in batcher_step.cpp.
#include "engine/batcher.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "model/weight_check.hpp"

namespace minfer::engine {
namespace {

void check_option(const char* name, int64_t value, int64_t most) {
  if (value < 1 || value > most) fail(ErrorCode::invalid_input, "{} is {}; expected 1 to {}", name, value, most);
}

// A shift by fewer tokens than this, unless it is half of what may go, is refused: it would be due every few tokens.
constexpr int64_t kLeastShift = 32;

// A layer with a window has no longer the first tokens, which a shift keeps; they must stay out of its sight, so what
// is left has to be longer than the window.
void check_shift(int64_t keep, const KvCache& cache) {
  const int64_t context = cache.sequence_tokens();
  for (size_t group = 0; group < cache.groups(); ++group) {
    const int64_t window = cache.window(group);
    if (window == 0) continue;
    // Of a full context, page by page.
    const int64_t given_up = std::max<int64_t>(0, context - window) / graph::kPageTokens * graph::kPageTokens;
    const int64_t missing = std::min(keep, given_up);
    const int64_t least = std::min((context - keep) / 2, kLeastShift);
    if (missing == 0 || context - window + 1 - missing >= least) continue;
    fail(ErrorCode::invalid_input,
         "a context of {} tokens of which {} are kept leaves too little to shift behind a window of {}; keep at most "
         "{}, or take a context of at least {}",
         context, keep, window, context - window + 1 - kLeastShift, keep + window - 1 + kLeastShift);
  }
}

void check_adapters(const Request& request, const model::Model& model) {
  const std::vector<float>& scales = request.adapter_scales;
  if (scales.empty()) return;
  if (scales.size() != model.adapters().size()) {
    fail(ErrorCode::invalid_input, "scales of {} adapters; the model has {}", scales.size(), model.adapters().size());
  }
  for (size_t i = 0; i < scales.size(); ++i) {
    if (std::fabs(scales[i]) <= model::kMaxAdapterScale) continue;
    fail(ErrorCode::invalid_input, "adapter {} at a scale of {}; expected -{} to {}", i, scales[i],
         model::kMaxAdapterScale, model::kMaxAdapterScale);
  }
  if (!request.session_path.empty()) {
    fail(ErrorCode::invalid_input, "a session goes on with the adapters that it began with; leave their scales out");
  }
}

void check_request(const Request& request, Runner& runner) {
  const int64_t context = runner.options().context_tokens;
  const int64_t length = static_cast<int64_t>(request.prompt.size());
  if (length == 0) fail(ErrorCode::invalid_input, "the prompt is empty; it must have at least one token");
  if (length > context) {
    fail(ErrorCode::invalid_input,
         "the prompt has {} tokens, the context {}; take a larger context or a shorter prompt", length, context);
  }
  // Those of a session may be more than the prompt's; that they are no more than the sequence's is seen at a shift.
  const bool has_session = !request.session_path.empty();
  if (request.keep_tokens < 0 || request.keep_tokens > (has_session ? context : length)) {
    fail(ErrorCode::invalid_input, "keep_tokens is {}; expected 0 to the {} {} tokens", request.keep_tokens,
         has_session ? "context's" : "prompt's", has_session ? context : length);
  }
  if (request.overflow == Overflow::shift) check_shift(request.keep_tokens, runner.cache());
  if (request.max_tokens < -1) {
    fail(ErrorCode::invalid_input, "max_tokens is {}; expected 0 or more, or -1", request.max_tokens);
  }
  if (request.top_logprobs < -1 || request.top_logprobs > kMostTopLogprobs) {
    fail(ErrorCode::invalid_input, "top_logprobs is {}; expected 0 to {}, or -1", request.top_logprobs,
         kMostTopLogprobs);
  }
  if (request.pooling && (has_session || request.grammar != nullptr || request.top_logprobs >= 0)) {
    fail(ErrorCode::invalid_input, "an embedding has no session, grammar or log-probabilities; leave them out");
  }
  if (!request.pooling && runner.encodes()) {
    fail(ErrorCode::unsupported, "{} is an encoder: it gives embeddings, and no text; ask for an embedding",
         runner.model().config().architecture);
  }
  check_adapters(request, runner.model());
  const auto vocabulary = static_cast<size_t>(runner.model().config().vocabulary);
  if (request.grammar != nullptr && grammar::vocabulary_size(*request.grammar) != vocabulary) {
    fail(ErrorCode::invalid_input,
         "the grammar is of a vocabulary of {} tokens, the model's has {}; compile it for that",
         grammar::vocabulary_size(*request.grammar), vocabulary);
  }
  runner.check_tokens(request.prompt);
}

Pooling pooling_of(const model::Config& config) {
  switch (config.pooling) {
    case model::Pooling::mean:
      return Pooling::mean;
    case model::Pooling::none:
      return config.encoder ? Pooling::mean : Pooling::last;
    case model::Pooling::first:
      return Pooling::first;
    case model::Pooling::last:
      return Pooling::last;
    case model::Pooling::rank:
      break;
  }
  fail(ErrorCode::unsupported, "{}.pooling_type is {} (rank); expected 1 (mean), 2 (first) or 3 (last)",
       config.architecture, static_cast<int>(config.pooling));
}

}  // namespace

Batcher::Batcher(Runner& runner, const tokenizer::Tokenizer& tokenizer, const BatcherOptions& options)
    : runner_(runner), tokenizer_(tokenizer), options_(options) {
  check_option("max_running", options.max_running, runner.options().outputs);
  check_option("max_waiting", options.max_waiting, kMaxWaiting);
  if (options.draft_depth != 0) check_option("draft_depth", options.draft_depth, kMaxDepth);
  const size_t streams = static_cast<size_t>(options.max_running);
  const size_t rows = static_cast<size_t>(runner.options().batch_tokens);
  running_.reserve(streams);
  pending_.reserve(streams);
  shares_.reserve(streams);
  rows_of_kind_.reserve(streams);
  leaving_.reserve(streams);
  for (Step& step : steps_) step.entries.reserve(streams);
  output_rows_.reserve(static_cast<size_t>(runner.options().outputs));
  sequences_.reserve(streams);
  draws_.reserve(streams);
  token_ids_.reserve(rows);
}

Batcher::~Batcher() {
  drop_steps();
}

void Batcher::check_queue(const BatcherStats& stats) const {
  if (stats.waiting + stats.running < options_.max_running + options_.max_waiting) return;
  fail(ErrorCode::busy, "the queue is full: {} requests wait and {} run; try again later", stats.waiting,
       stats.running);
}

std::unique_ptr<Stream> Batcher::create(Request request, Listener listener) const {
  check_request(request, runner_);
  if (request.pooling == Pooling::of_model) request.pooling = pooling_of(runner_.model().config());
  const bool drafts = options_.make_proposer && !request.pooling;
  auto proposer = drafts ? options_.make_proposer(request) : nullptr;
  const DepthPolicy depth =
      options_.draft_depth > 0 ? DepthPolicy::fixed(options_.draft_depth) : DepthPolicy::adaptive(kMaxDepth);
  return std::make_unique<Stream>(next_id_++, std::move(request), std::move(listener), tokenizer_, runner_.cache(),
                                  options_.share_prefixes && !runner_.encodes(), std::move(proposer), depth);
}

RequestId Batcher::submit(Request request, Listener listener) {
  check_queue(stats());
  add(create(std::move(request), std::move(listener)));
  return waiting_.back()->id();
}

void Batcher::cancel(RequestId id) {
  const auto mark = [&](const std::unique_ptr<Stream>& stream) {
    if (stream->id() == id) stream->cancelled = true;
  };
  std::for_each(waiting_.begin(), waiting_.end(), mark);
  std::for_each(running_.begin(), running_.end(), mark);
}

void Batcher::cancel_all() {
  for (auto& stream : waiting_) stream->cancelled = true;
  for (auto& stream : running_) stream->cancelled = true;
}

void Batcher::fail_all(const Error& error) {
  drop_steps();
  const auto fail_one = [&](const std::unique_ptr<Stream>& stream) {
    if (stream->ended()) return;
    try {
      fail_stream(*stream, error);
    } catch (const std::exception&) {
      // Its listener's; it has been told, and so are the others.
    }
  };
  std::for_each(waiting_.begin(), waiting_.end(), fail_one);
  std::for_each(running_.begin(), running_.end(), fail_one);
  waiting_.clear();
  running_.clear();
}

BatcherStats Batcher::stats() const {
  BatcherStats stats = stats_;
  stats.running = static_cast<int64_t>(running_.size());
  stats.waiting = static_cast<int64_t>(waiting_.size());
  for (size_t group = 0; group < runner_.cache().groups(); ++group) {
    const PagePool& pool = runner_.cache().pool(group);
    stats.pages += pool.pages();
    stats.used_pages += pool.pages() - pool.available_pages();
    stats.idle_pages += pool.idle_pages();
    stats.evictions += pool.evictions();
  }
  return stats;
}

bool Batcher::step() {
  end_cancelled();
  admit();
  const auto start = std::chrono::steady_clock::now();
  if (steps_in_flight_ == 0 && plan_step()) submit_step();
  if (may_run_ahead() && plan_step()) submit_step();
  if (steps_in_flight_ > 0) {
    const Step& step = first_step();
    take_step();
    record_cost(step, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  remove_ended();
  // The rows of those that have just ended, where no other step follows.
  while (running_.empty() && waiting_.empty() && steps_in_flight_ > 0) take_step();
  return !running_.empty() || !waiting_.empty();
}

void Batcher::end_cancelled() {
  for (auto& stream : running_) {
    if (stream->cancelled) end(*stream, StopReason::cancelled);
  }
  for (auto& stream : waiting_) {
    if (stream->cancelled) end(*stream, StopReason::cancelled);
  }
  std::erase_if(waiting_, [](const auto& stream) { return stream->ended(); });
  remove_ended();
}

// Pages that a sequence of `tokens` holds at most in a group while it grows to that length.
int64_t Batcher::pages_for(size_t group, int64_t tokens) const {
  const int64_t all = page_count(tokens);
  const int64_t window = runner_.cache().window(group);
  return window == 0 ? all : std::min(all, page_count(window + runner_.options().batch_tokens) + 1);
}

// Pages that the running sequences will still take for the tokens that they know.
int64_t Batcher::promised_pages(size_t group) const {
  int64_t pages = 0;
  for (const auto& stream : running_) {
    const Sequence& sequence = stream->sequence();
    const int64_t known = stream->length_in_flight() + stream->unsubmitted();
    const int64_t held =
        static_cast<int64_t>(sequence.pages(group).size()) - sequence.first_token(group) / graph::kPageTokens;
    pages += std::max<int64_t>(0, pages_for(group, known) - held);
  }
  return pages;
}

bool Batcher::may_start(Stream& stream) const {
  if (static_cast<int64_t>(running_.size()) >= options_.max_running) return false;
  if (running_.empty()) return true;
  // The file is read again once there is room for what it had: a request that runs may be writing it.
  if (!has_pages_for(stream.pending().size() + stream.session_tokens())) return false;
  return !stream.peek_session() || has_pages_for(stream.pending().size() + stream.session_tokens());
}

bool Batcher::has_pages_for(size_t prompt) const {
  // One more than the prompt's: the first tokens that it draws.
  const int64_t tokens = std::min(static_cast<int64_t>(prompt) + 1, runner_.options().context_tokens);
  for (size_t group = 0; group < runner_.cache().groups(); ++group) {
    const int64_t available = runner_.cache().pool(group).available_pages() - promised_pages(group);
    if (pages_for(group, tokens) > available) return false;
  }
  return true;
}

void Batcher::admit() {
  while (!waiting_.empty() && may_start(*waiting_.front())) {
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    Stream& stream = *running_.back();
    try {
      stats_.reused_tokens += stream.start(session_target(stream));
    } catch (const Error& error) {
      fail_stream(stream, error);
      remove_ended();
    }
  }
}

const SessionTarget* Batcher::session_target(const Stream& stream) {
  if (!stream.has_session()) return nullptr;
  if (!session_target_) {
    identity_ = identify_model(runner_.model(), runner_.options().context_tokens);
    session_target_.emplace(SessionTarget{*identity_, runner_.kv_spec(), runner_.cache()});
  }
  return &*session_target_;
}

void Batcher::end(Stream& stream, StopReason reason) {
  try {
    const SessionTarget* target = session_target(stream);
    if (target != nullptr && stream.has_started()) stream.save(*target);
  } catch (const Error& error) {
    return fail_stream(stream, error);
  }
  stream.end(reason, std::nullopt);
}

void Batcher::fail_stream(Stream& stream, const Error& error) {
  stream.end(StopReason::failed, error);
}

void Batcher::fail_stream(Stream& stream, const BrokenLogits& error) {
  if (!broken_weights_) broken_weights_ = model::describe_broken_weights(runner_.model());
  stream.end(StopReason::failed, Error(error.code(), fmt::format("{}; {}", error.what(), *broken_weights_)));
}

void Batcher::remove_ended() {
  for (auto& stream : running_) {
    if (stream->ended() && stream->in_flight()) leaving_.push_back(std::move(stream));
  }
  std::erase_if(running_, [](const auto& stream) { return stream == nullptr || stream->ended(); });
}

}  // namespace minfer::engine
