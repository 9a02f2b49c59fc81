// How far the server is: loading its model, serving it, draining, or failed; and the model, once it is loaded. Any
// thread asks and tells.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/api_error.hpp"
#include "server/served_model.hpp"

namespace minfer::server {

class ServerState {
 public:
  // Of loading, 0 to 1.
  void set_progress(double progress);
  // Loaded: endpoints may use it. Null, later on: its engine is about to go.
  void set_model(std::shared_ptr<const ServedModel> model);
  // It could not be loaded.
  void set_failed(const std::string& reason);
  bool has_failed() const;
  // A device that fails makes /health say so until it works again; requests are let through meanwhile.
  void note_result(const engine::Result& result);
  // For good.
  void set_draining();

  // Null while there is none.
  std::shared_ptr<const ServedModel> model() const;
  // Why a request that needs the model can't be taken now.
  std::optional<ApiError> refusal() const;
  // The answer of /health: {"status": "loading", "progress": 0.42}, with "ok" alone under status 200.
  HttpResponse health() const;

 private:
  enum class Phase { loading, ok, draining, failed };

  mutable std::mutex mutex_;
  Phase phase_ = Phase::loading;
  double progress_ = 0;
  std::string reason_;
  std::string device_error_;
  std::shared_ptr<const ServedModel> model_;
};

}  // namespace minfer::server
