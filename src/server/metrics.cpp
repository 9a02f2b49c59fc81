// The metrics' names and their updates. See metrics.hpp.
// What the engine counts itself is kept as gauges that take its numbers over: a counter can only be added to.
#include "server/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace minfer::server {
namespace {

const prometheus::Histogram::BucketBoundaries kFirstTokenSeconds = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                                                    1,     2.5,  5,     10,   30,  60,   120};

std::string_view reason_name(engine::StopReason reason) {
  switch (reason) {
    case engine::StopReason::end_of_generation:
      return "end_of_generation";
    case engine::StopReason::max_tokens:
      return "max_tokens";
    case engine::StopReason::stop_string:
      return "stop_string";
    case engine::StopReason::context_full:
      return "context_full";
    case engine::StopReason::cancelled:
      return "cancelled";
    case engine::StopReason::failed:
      return "failed";
  }
  return "failed";
}

}  // namespace

struct Metrics::Families {
  prometheus::Registry registry;

  prometheus::Family<prometheus::Counter>& counters(const std::string& name, const std::string& help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  prometheus::Counter& counter(const std::string& name, const std::string& help) {
    return counters(name, help).Add({});
  }
  prometheus::Gauge& gauge(const std::string& name, const std::string& help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
  }
  prometheus::Histogram& histogram(const std::string& name, const std::string& help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, kFirstTokenSeconds);
  }

  prometheus::Family<prometheus::Counter>& answers =
      counters("minfer_http_answers_total", "Answers by endpoint and HTTP status; 499: the client left before the end");
  prometheus::Family<prometheus::Counter>& ended =
      counters("minfer_requests_total", "Requests of the engine that ended, by endpoint and reason");
  prometheus::Counter& prompt_tokens = counter("minfer_prompt_tokens_total", "Tokens of prompts");
  prometheus::Counter& cached_tokens =
      counter("minfer_cached_prompt_tokens_total", "Of those, tokens found in the prefix cache");
  prometheus::Counter& generated_tokens = counter("minfer_generated_tokens_total", "Tokens drawn");
  prometheus::Counter& drafted_tokens = counter("minfer_drafted_tokens_total", "Tokens guessed by speculation");
  prometheus::Counter& accepted_tokens = counter("minfer_accepted_tokens_total", "Of those, tokens that stood");
  prometheus::Counter& queue_seconds =
      counter("minfer_queue_seconds_total", "Seconds between submission and first step, summed over requests");
  prometheus::Counter& prompt_seconds =
      counter("minfer_prompt_seconds_total", "Seconds between first step and first token, summed over requests");
  prometheus::Counter& generate_seconds =
      counter("minfer_generate_seconds_total", "Seconds between first and last token, summed over requests");
  prometheus::Histogram& first_token =
      histogram("minfer_time_to_first_token_seconds", "Seconds between submission and first token");
  prometheus::Gauge& connections = gauge("minfer_http_connections", "Open connections");
  prometheus::Gauge& running = gauge("minfer_requests_running", "Requests that have a place in the KV cache");
  prometheus::Gauge& waiting = gauge("minfer_requests_waiting", "Requests in the queue");
  prometheus::Gauge& steps = gauge("minfer_engine_steps", "Steps of the engine so far");
  prometheus::Gauge& rows = gauge("minfer_engine_rows", "Rows (tokens) of those steps");
  prometheus::Gauge& preemptions = gauge("minfer_engine_preemptions", "Times that a request's KV pages were taken");
  prometheus::Gauge& pages = gauge("minfer_kv_pages_total", "KV pages");
  prometheus::Gauge& used_pages = gauge("minfer_kv_pages_used", "KV pages that requests hold");
  prometheus::Gauge& idle_pages = gauge("minfer_kv_pages_idle", "KV pages that are kept for their prefixes alone");
  prometheus::Gauge& evictions = gauge("minfer_kv_pages_evicted", "Such pages given up so far");
};

Metrics::Metrics() : families_(std::make_unique<Families>()) {}
Metrics::~Metrics() = default;

void Metrics::count_answer(std::string_view endpoint, int status) {
  const std::string name(endpoint.empty() ? "other" : endpoint);
  families_->answers.Add({{"endpoint", name}, {"status", std::to_string(status)}}).Increment();
}

void Metrics::observe(std::string_view endpoint, const engine::Result& result) {
  Families& f = *families_;
  f.ended.Add({{"endpoint", std::string(endpoint)}, {"reason", std::string(reason_name(result.reason))}}).Increment();
  f.prompt_tokens.Increment(static_cast<double>(result.prompt_tokens));
  f.cached_tokens.Increment(static_cast<double>(result.reused_tokens));
  f.generated_tokens.Increment(static_cast<double>(result.generated_tokens));
  f.drafted_tokens.Increment(static_cast<double>(result.drafted_tokens));
  f.accepted_tokens.Increment(static_cast<double>(result.accepted_tokens));
  f.queue_seconds.Increment(result.queue_seconds);
  f.prompt_seconds.Increment(result.prompt_seconds);
  f.generate_seconds.Increment(result.generate_seconds);
  if (result.generated_tokens > 0) f.first_token.Observe(result.queue_seconds + result.prompt_seconds);
}

void Metrics::set_connections(int64_t connections) {
  families_->connections.Set(static_cast<double>(connections));
}

void Metrics::set_engine(const engine::BatcherStats& stats) {
  Families& f = *families_;
  f.running.Set(static_cast<double>(stats.running));
  f.waiting.Set(static_cast<double>(stats.waiting));
  f.steps.Set(static_cast<double>(stats.steps));
  f.rows.Set(static_cast<double>(stats.rows));
  f.preemptions.Set(static_cast<double>(stats.preemptions));
  f.pages.Set(static_cast<double>(stats.pages));
  f.used_pages.Set(static_cast<double>(stats.used_pages));
  f.idle_pages.Set(static_cast<double>(stats.idle_pages));
  f.evictions.Set(static_cast<double>(stats.evictions));
}

std::string Metrics::text() const {
  return prometheus::TextSerializer().Serialize(families_->registry.Collect());
}

}  // namespace minfer::server
