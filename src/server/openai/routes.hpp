// The OpenAI-compatible endpoints as rows of the server's table, and the thread that answers them.
#pragma once

#include <memory>
#include <vector>

#include "server/http/exchange.hpp"
#include "server/openai/service.hpp"

namespace minfer::server::openai {

struct EndpointOptions {
  ModelSource model;           // null until one is loaded
  bool strict_fields = false;  // unknown fields of requests are refused
  ResultSink on_result = {};   // hears of each engine request that has ended
};

class Endpoints {
 public:
  explicit Endpoints(EndpointOptions options);

  // May be called, and its handlers used, as long as the server likes: after stop() they answer 503.
  std::vector<Route> routes() const;
  // Ends what is being answered: streams with an error frame, others with 503. The engine is not called any more after
  // it: it may go.
  void stop();

 private:
  std::shared_ptr<Service> service_;
};

}  // namespace minfer::server::openai
