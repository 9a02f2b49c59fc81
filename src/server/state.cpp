// The server's state. See state.hpp.
// A failed or draining server stays so.
#include "server/state.hpp"

#include <algorithm>
#include <cmath>

#include "server/json_writer.hpp"

namespace minfer::server {
namespace {

constexpr int kUnavailable = 503;
constexpr int kRetryAfterS = 5;

}  // namespace

void ServerState::set_progress(double progress) {
  const std::lock_guard lock(mutex_);
  progress_ = std::clamp(progress, 0.0, 1.0);
}

void ServerState::set_model(std::shared_ptr<const ServedModel> model) {
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::loading && model != nullptr) phase_ = Phase::ok;
  model_.swap(model);
}

void ServerState::set_failed(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  phase_ = Phase::failed;
  reason_ = reason;
}

bool ServerState::has_failed() const {
  const std::lock_guard lock(mutex_);
  return phase_ == Phase::failed;
}

void ServerState::note_result(const engine::Result& result) {
  const bool is_device = result.error && result.error->code() == ErrorCode::device;
  if (!is_device && result.error) return;
  const std::lock_guard lock(mutex_);
  device_error_ = is_device ? result.error->what() : "";
}

void ServerState::set_draining() {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::failed) phase_ = Phase::draining;
}

std::shared_ptr<const ServedModel> ServerState::model() const {
  const std::lock_guard lock(mutex_);
  return model_;
}

std::optional<ApiError> ServerState::refusal() const {
  const std::lock_guard lock(mutex_);
  ApiError error{.status = kUnavailable, .message = {}, .type = "server_error", .retry_after_s = kRetryAfterS};
  switch (phase_) {
    case Phase::ok:
      return std::nullopt;
    case Phase::loading:
      error.code = "model_loading";
      error.message = fmt::format("the model is being loaded ({:.0f}%); try again later", 100 * progress_);
      return error;
    case Phase::draining:
      error.code = "shutting_down";
      error.message = "the server is shutting down";
      return error;
    case Phase::failed:
      break;
  }
  error.code = "model_failed";
  error.message = fmt::format("the model could not be loaded: {}", reason_);
  error.retry_after_s = 0;
  return error;
}

HttpResponse ServerState::health() const {
  const std::lock_guard lock(mutex_);
  JsonWriter json;
  json.begin_object().key("status");
  switch (phase_) {
    case Phase::loading: {
      constexpr double kSteps = 1000;
      json.string("loading").key("progress").number(std::floor(progress_ * kSteps) / kSteps);
      break;
    }
    case Phase::ok:
      if (device_error_.empty()) {
        json.string("ok");
      } else {
        json.string("failed").key("message").string(device_error_);
      }
      break;
    case Phase::draining:
      json.string("draining");
      break;
    case Phase::failed:
      json.string("failed").key("message").string(reason_);
      break;
  }
  json.end_object();
  const bool is_ok = phase_ == Phase::ok && device_error_.empty();
  return {.status = is_ok ? 200 : kUnavailable, .body = json.take()};
}

}  // namespace minfer::server
