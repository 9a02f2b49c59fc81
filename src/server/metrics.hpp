// What the server counts, for Prometheus: answers by endpoint and status, tokens and times of requests that ended, and
// what the engine says of itself when it is asked. Observed once a request, never once a token. Any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/batcher.hpp"
#include "engine/request.hpp"

namespace minfer::server {

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // An answer was given. `endpoint`: the path of its route; empty where there was none.
  void count_answer(std::string_view endpoint, int status);
  // A request of the engine ended.
  void observe(std::string_view endpoint, const engine::Result& result);
  void set_connections(int64_t connections);
  // The engine's counts, as of now.
  void set_engine(const engine::BatcherStats& stats);

  // All of it in Prometheus' text format 0.0.4.
  std::string text() const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace minfer::server
