// A request's state from prompt to end. See stream.hpp.
#include "engine/stream.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "base/error.hpp"
#include "engine/broken_logits.hpp"

namespace minfer::engine {
namespace {

double seconds_between(Stream::Clock::time_point from, Stream::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Stream::Stream(RequestId id, Request request, Listener listener, const tokenizer::Tokenizer& tokenizer, KvCache& cache,
               bool share_prefixes, std::unique_ptr<Proposer> proposer, const DepthPolicy& depth)
    : id_(id),
      request_(std::move(request)),
      listener_(std::move(listener)),
      tokenizer_(tokenizer),
      sequence_(cache, share_prefixes && !pools_all(), request_.adapter_scales),
      context_tokens_(cache.sequence_tokens()),
      sampler_(request_.sampler, static_cast<int64_t>(tokenizer.vocab().size())),
      stops_(request_.stops),
      decoder_(tokenizer, {.show_control = request_.show_control, .at_text_start = false}),
      logprobs_(std::max(request_.top_logprobs, 0)),
      proposer_(std::move(proposer)),
      depth_(depth) {
  tokens_.reserve(static_cast<size_t>(cache.sequence_tokens()) + 1);
  tokens_ = request_.prompt;
  for (const int32_t token : tokens_) sampler_.accept(token);
  result_.prompt_tokens = static_cast<int64_t>(tokens_.size());
  if (request_.grammar != nullptr) sampler_.set_grammar(request_.grammar);
}

std::span<const int32_t> Stream::pending() const {
  return std::span(tokens_).subspan(static_cast<size_t>(sequence_.length()));
}

// Whether a token that is being drawn goes into the next step: not where it is known to be the last.
bool Stream::runs_awaited() const {
  return request_.max_tokens < 0 || result_.generated_tokens + awaited_ < request_.max_tokens;
}

int64_t Stream::unsubmitted() const {
  const int64_t known = static_cast<int64_t>(pending().size()) - submitted_rows_;
  return known + (runs_awaited() ? awaited_ : 0);
}

void Stream::append_ids(int64_t rows, std::vector<int32_t>& ids) const {
  const auto known = std::min(static_cast<size_t>(submitted_rows_ + rows), pending().size());
  for (size_t i = static_cast<size_t>(submitted_rows_); i < known; ++i) ids.push_back(pending()[i]);
  if (known < static_cast<size_t>(submitted_rows_ + rows)) ids.push_back(graph::drawn_token(awaited_output_));
}

void Stream::submitted(int64_t rows, int32_t output) {
  submitted_rows_ += rows;
  fresh_ = false;
  has_run_ = true;
  if (output == graph::kNoOutput) return;
  ++awaited_;
  awaited_output_ = output;
}

void Stream::arrived(int64_t rows, bool drawn) {
  submitted_rows_ -= rows;
  if (drawn) --awaited_;
  if (awaited_ == 0) awaited_output_ = graph::kNoOutput;
}

bool Stream::peek_session() {
  if (started_ || !has_session()) return false;
  session_tokens_ = static_cast<size_t>(peek_session_tokens(request_.session_path));
  return session_tokens_ > 0;
}

void Stream::load(const SessionTarget& target) {
  // A path that can't be looked at is for load_session to complain of.
  std::error_code error;
  if (!std::filesystem::exists(request_.session_path, error) && !error) return;
  std::vector<int32_t> earlier = load_session(request_.session_path, sequence_, target);
  sampler_.set_suspects(fmt::format("its weights or the session {} are broken", request_.session_path));
  earlier.insert(earlier.begin(), sequence_.tokens().begin(), sequence_.tokens().end());
  if (!earlier.empty() && !tokenizer_.vocab().is_end_of_generation(earlier.back())) {
    tokens_.insert(tokens_.begin(), request_.turn_end.begin(), request_.turn_end.end());
  }
  make_room(earlier, target);
  result_.session_tokens = static_cast<int64_t>(earlier.size());
  tokens_.insert(tokens_.begin(), earlier.begin(), earlier.end());
  sampler_.rewind(sampler_.history().size());
  for (const int32_t token : tokens_) sampler_.accept(token);
}

// For the prompt behind a loaded session of the tokens `earlier`.
void Stream::make_room(std::vector<int32_t>& earlier, const SessionTarget& target) {
  const int64_t prompt = static_cast<int64_t>(tokens_.size());
  const int64_t excess = static_cast<int64_t>(earlier.size()) + prompt - target.cache.sequence_tokens();
  if (excess <= 0) return;
  const int64_t removable = sequence_.length() - request_.keep_tokens;
  if (request_.overflow != Overflow::shift || removable < excess) {
    result_.too_long = true;
    fail(ErrorCode::invalid_input,
         "the session {} has {} tokens and the prompt {}, the context {}; take a larger one, or let it shift",
         request_.session_path, earlier.size(), prompt, target.cache.sequence_tokens());
  }
  const int64_t most = std::min(removable, sequence_.most_removable(request_.keep_tokens));
  if (most < excess) {
    result_.too_long = true;
    fail(ErrorCode::invalid_input,
         "the session {} has to give up {} tokens for the prompt, and layers with a window can shift {} at most behind "
         "the first {}; take a larger context, or keep fewer",
         request_.session_path, excess, most, request_.keep_tokens);
  }
  const int64_t count = std::min(most, page_count(excess) * graph::kPageTokens);
  if (!sequence_.remove(request_.keep_tokens, count)) {
    fail(ErrorCode::out_of_memory, "no KV pages are free to shift the session {}", request_.session_path);
  }
  earlier.erase(earlier.begin() + request_.keep_tokens, earlier.begin() + request_.keep_tokens + count);
  ++result_.shifts;
}

void Stream::save(const SessionTarget& target) {
  // A draft may have gone beyond the end.
  if (sequence_.tokens().size() > tokens_.size()) sequence_.truncate(static_cast<int64_t>(tokens_.size()));
  save_session(request_.session_path, sequence_, pending(), target);
}

int64_t Stream::start(const SessionTarget* target) {
  if (!started_ && has_session()) load(*target);
  fresh_ = true;
  if (!started_) {
    started_ = true;
    session_tokens_ = 0;
    started_at_ = Clock::now();
    result_.queue_seconds = seconds_between(submitted_, started_at_);
    sampler_.look_ahead();
  }
  return find_prefix();
}

int64_t Stream::find_prefix() {
  if (!shares_prefix()) return 0;
  const int64_t before = sequence_.length();
  sequence_.clear();
  const int64_t found = sequence_.reuse_prefix(tokens_);
  if (!has_run_) result_.reused_tokens = found;
  return found - before;
}

bool Stream::awaits_prefix_of(const Stream& other) const {
  if (!shares_prefix() || other.ended_ || !other.sequence_.publishes()) return false;
  const auto mine = sequence_.adapter_scales();
  const auto theirs = other.sequence_.adapter_scales();
  if (!std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end())) return false;
  const auto most = tokens_.begin() + static_cast<std::ptrdiff_t>(tokens_.size()) - 1;
  const auto end = std::mismatch(tokens_.begin(), most, other.tokens_.begin(), other.tokens_.end()).first;
  const int64_t common = (end - tokens_.begin()) / graph::kPageTokens * graph::kPageTokens;
  return common > std::max(sequence_.length(), other.sequence_.length());
}

void Stream::preempt() {
  sequence_.clear();
  pooled_.clear();
  if (proposer_ != nullptr) proposer_->reset();
  preempted = true;
  ++result_.preemptions;
}

bool Stream::shift() {
  if (request_.overflow != Overflow::shift) return false;
  const int64_t removable = sequence_.length() - request_.keep_tokens;
  const int64_t most = std::min(removable / 2, sequence_.most_removable(request_.keep_tokens));
  // Whole pages, where there are such: then only keys change.
  const int64_t count = most < graph::kPageTokens ? most : most / graph::kPageTokens * graph::kPageTokens;
  if (count <= 0) return false;
  if (!sequence_.remove(request_.keep_tokens, count)) {
    fail(ErrorCode::out_of_memory, "the context of {} tokens is full, and no KV pages are free to shift it",
         sequence_.length());
  }
  tokens_.erase(tokens_.begin() + request_.keep_tokens, tokens_.begin() + request_.keep_tokens + count);
  sampler_.remove(request_.keep_tokens, count);
  if (proposer_ != nullptr) proposer_->reset();
  ++result_.shifts;
  return true;
}

double Stream::propose(int64_t most, int64_t other_rows, StepCost& cost) {
  draft_.clear();
  if (proposer_ == nullptr) return 0;
  most = std::min(most, depth_.next(cost, other_rows));
  if (request_.max_tokens >= 0) most = std::min(most, request_.max_tokens - result_.generated_tokens - 1);
  if (most < 1) return 0;
  const auto to_read = depth_.tokens_to_read(cost, other_rows, proposer_->lag(sampler_.history()));
  if (to_read.value_or(0) > 0) {
    const Clock::time_point start = Clock::now();
    if (!proposer_->catch_up(sampler_.history(), *to_read)) return 0;
    const double seconds = seconds_between(start, Clock::now());
    cost.record_catch_up(*to_read, seconds);
    depth_.pay_reading(cost, other_rows, *to_read);
    return seconds;
  }
  if (to_read) proposer_->propose(sampler_.history(), most, draft_);
  return 0;
}

std::optional<StopReason> Stream::take(const DrawnToken& token) {
  tokens_.push_back(token.id);
  if (++result_.generated_tokens == 1) first_token_at_ = Clock::now();
  const bool last = tokenizer_.vocab().is_end_of_generation(token.id);
  const std::string_view text = last ? std::string_view() : stops_.push(decoder_.push(token.id));
  if (listener_.on_token) listener_.on_token(token, text);
  if (last) return StopReason::end_of_generation;
  if (stops_.stopped()) return StopReason::stop_string;
  if (result_.generated_tokens == request_.max_tokens) return StopReason::max_tokens;
  return std::nullopt;
}

// What the grammar says to the last token: that it is over, or what must follow, as far as the context has room. The
// tokens of that are pending together.
std::optional<StopReason> Stream::go_on(std::optional<StopReason> reason) {
  if (request_.grammar == nullptr) return reason;
  const auto ended = [&] {
    if (sampler_.is_over() && (!reason || reason == StopReason::max_tokens)) reason = StopReason::end_of_generation;
    return reason.has_value();
  };
  while (!ended()) {
    sampler_.look_ahead();
    const bool has_room = static_cast<int64_t>(tokens_.size()) < context_tokens_;
    const int32_t token = request_.top_logprobs < 0 && has_room ? sampler_.forced() : -1;
    if (token < 0) break;
    sampler_.accept_next(token);
    reason = take({token});
  }
  return reason;
}

std::optional<StopReason> Stream::take(int32_t id, std::span<const float> logits) {
  if (request_.top_logprobs < 0) return take({id});
  logprobs_.read(logits);
  return take({id, logprobs_.of(logits[static_cast<size_t>(id)]), logprobs_.top()});
}

void Stream::accept_draft(int64_t accepted) {
  drafted_ = static_cast<int64_t>(draft_.tokens.size());
  accepted_ = accepted;
  result_.drafted_tokens += drafted_;
  result_.accepted_tokens += accepted_;
  sequence_.commit(std::span(draft_.tokens).first(static_cast<size_t>(accepted)));
}

std::optional<StopReason> Stream::advance(int64_t rows, std::span<const float> logits) {
  sequence_.commit(pending().first(static_cast<size_t>(rows)));
  if (logits.empty()) return std::nullopt;
  if (request_.max_tokens == 0) return StopReason::max_tokens;
  const Verdict verdict = verify(sampler_, logits, draft_,
                                 [this](int32_t token) { return tokenizer_.vocab().is_end_of_generation(token); });
  accept_draft(verdict.accepted);
  const size_t vocabulary = logits.size() / (1 + draft_.tokens.size());
  const auto accepted = static_cast<size_t>(verdict.accepted);
  for (size_t row = 0; row < accepted; ++row) {
    const auto reason = take(draft_.tokens[row], logits.subspan(row * vocabulary, vocabulary));
    if (reason) return reason;
  }
  return go_on(take(verdict.next, logits.subspan(accepted * vocabulary, vocabulary)));
}

graph::RowDraw Stream::row_draw() {
  graph::RowDraw draw = sampler_.row_draw();
  draw.top_logprobs = std::max(request_.top_logprobs, 0);
  return draw;
}

std::optional<StopReason> Stream::advance_drawn(int64_t rows, const graph::Drawn& drawn,
                                                std::span<const TokenLogprob> top) {
  sequence_.commit(pending().first(static_cast<size_t>(rows)));
  if (request_.max_tokens == 0) return StopReason::max_tokens;
  const int32_t id = sampler_.take(drawn);
  accept_draft(0);
  if (request_.top_logprobs < 0) return go_on(take({id}));
  const size_t most = std::min(static_cast<size_t>(request_.top_logprobs), tokenizer_.vocab().size());
  return go_on(take({id, drawn.logprob, top.first(most)}));
}

std::optional<StopReason> Stream::advance_hidden(int64_t rows, std::span<const float> hidden, int64_t width) {
  sequence_.commit(pending().first(static_cast<size_t>(rows)));
  const auto length = static_cast<size_t>(width);
  pooled_.resize(length, 0.0);
  if (request_.pooling == Pooling::first) hidden = hidden.first(sequence_.length() == rows ? length : 0);
  for (size_t i = 0; i < hidden.size(); ++i) pooled_[i % length] += static_cast<double>(hidden[i]);
  if (!pending().empty()) return std::nullopt;
  const double count = request_.pooling == Pooling::mean ? static_cast<double>(tokens_.size()) : 1.0;
  for (const double sum : pooled_) {
    result_.embedding.push_back(static_cast<float>(sum / count));
    if (!std::isfinite(result_.embedding.back())) {
      fail_broken("the model gave {} in the hidden state of a text; its weights are broken", result_.embedding.back());
    }
  }
  return StopReason::max_tokens;
}

void Stream::record_draft(const StepCost& cost, int64_t other_rows) {
  if (proposer_ != nullptr) depth_.record(cost, other_rows, drafted_, accepted_);
}

void Stream::end(StopReason reason, const std::optional<Error>& error) {
  ended_ = true;
  result_.reason = reason;
  result_.error = error;
  const Clock::time_point now = Clock::now();
  if (result_.generated_tokens > 0) {
    result_.prompt_seconds = seconds_between(started_at_, first_token_at_);
    result_.generate_seconds = seconds_between(first_token_at_, now);
  } else if (started_) {
    result_.prompt_seconds = seconds_between(started_at_, now);
  } else {
    result_.queue_seconds = seconds_between(submitted_, now);
  }
  sequence_.clear();
  proposer_.reset();
  try {
    // Text that was held back because it might have become a stop string.
    std::string rest(stops_.push(decoder_.finish()));
    if (!stops_.stopped()) rest += stops_.finish();
    if (!rest.empty() && listener_.on_token) listener_.on_token({}, rest);
  } catch (...) {
    if (listener_.on_end) listener_.on_end(result_);
    throw;
  }
  if (listener_.on_end) listener_.on_end(result_);
}

}  // namespace minfer::engine
