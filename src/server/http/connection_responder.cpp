// From a handler's calls to bytes on a connection. See connection_responder.hpp.
// Memory that is used up drops the client: no call throws.
#include "server/http/connection_responder.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <new>
#include <utility>

#include "server/api_error.hpp"
#include "server/http/response_head.hpp"

namespace minfer::server {
namespace {

constexpr int kOk = 200;
constexpr int kNoContent = 204;
constexpr int kNotModified = 304;
constexpr std::string_view kLastChunk = "0\r\n\r\n";
// Events of the largest size that a client may have to read beside max_queued_bytes: the last events of a response come
// at once, and each repeats the whole of it.
constexpr size_t kQueuedEvents = 8;

}  // namespace

ConnectionResponder::ConnectionResponder(std::shared_ptr<Connection> connection, const Framing& framing, Headers common)
    : connection_(std::move(connection)), framing_(framing), common_(std::move(common)) {}

ConnectionResponder::~ConnectionResponder() {
  bool was_begun = false;
  {
    const std::lock_guard lock(connection_->mutex_);
    if (ended_ || connection_->gone_) return;
    was_begun = begun_;
  }
  if (was_begun) {
    connection_->close_soon();
    return;
  }
  try {
    send(error_response({.status = 500,
                         .message = "the request was given up without an answer",
                         .type = "server_error",
                         .code = "internal"}));
  } catch (const std::exception&) {
    connection_->close_soon();
  }
}

bool ConnectionResponder::keeps_alive() const {
  return framing_.keeps_alive && !connection_->shared_->draining;
}

void ConnectionResponder::send(HttpResponse response) try {
  ResponseHead head{.status = response.status, .content_type = response.content_type, .keeps_alive = keeps_alive()};
  // "No content" and "not modified" have no body, and say nothing of its length.
  if (response.status != kNoContent && response.status != kNotModified) head.content_length = response.body.size();
  std::string text = format_head(head, response.headers, common_);
  if (!framing_.leaves_out_body) text += response.body;
  Connection& c = *connection_;
  const std::lock_guard lock(c.mutex_);
  if (begun_ || ended_ || c.gone_) return;
  begun_ = ended_ = c.ended_ = true;
  c.closes_after_ = !head.keeps_alive;
  c.status_ = response.status;
  c.queue(text);
} catch (const std::exception&) {
  connection_->close_soon();
}

void ConnectionResponder::begin_events() try {
  const ResponseHead head{.status = kOk,
                          .content_type = "text/event-stream",
                          .chunked = framing_.is_chunkable,
                          .keeps_alive = framing_.is_chunkable && keeps_alive()};
  // Proxies that would collect the events: nginx goes by this header.
  const std::string text = format_head(head, {{"X-Accel-Buffering", "no"}}, common_);
  Connection& c = *connection_;
  const std::lock_guard lock(c.mutex_);
  if (begun_ || ended_ || c.gone_) return;
  begun_ = c.streaming_ = true;
  c.chunked_ = head.chunked;
  c.closes_after_ = !head.keeps_alive;
  c.status_ = head.status;
  c.queue(text);
} catch (const std::exception&) {
  connection_->close_soon();
}

// A piece of a stream, "PREFIX MIDDLE DATA" and the end of an event, as a chunk of its own.
void ConnectionResponder::stream(std::string_view prefix, std::string_view middle, std::string_view data) try {
  constexpr std::string_view kEnd = "\n\n";
  const size_t size = prefix.size() + middle.size() + data.size() + kEnd.size();
  Connection& c = *connection_;
  const std::lock_guard lock(c.mutex_);
  if (!begun_ || ended_ || c.gone_) return;
  const size_t before = c.pending_.size();
  if (framing_.is_chunkable) fmt::format_to(std::back_inserter(c.pending_), "{:x}\r\n", size);
  c.pending_.append(prefix).append(middle).append(data).append(kEnd);
  if (framing_.is_chunkable) c.pending_ += "\r\n";
  c.unsent_ += c.pending_.size() - before;
  largest_event_ = std::max(largest_event_, size);
  if (c.unsent_ > c.shared_->options.max_queued_bytes + kQueuedEvents * largest_event_) {
    c.gone_ = true;  // too slow; what is queued is dropped with the connection
    c.close_soon();
    return;
  }
  c.wake_writer();
} catch (const std::exception&) {
  connection_->close_soon();
}

void ConnectionResponder::send_event(std::string_view data, std::string_view event) {
  if (event.empty()) {
    stream("data: ", {}, data);
    return;
  }
  try {
    const std::string name = fmt::format("event: {}\n", event);
    stream(name, "data: ", data);
  } catch (const std::exception&) {
    connection_->close_soon();
  }
}

void ConnectionResponder::end_events() try {
  Connection& c = *connection_;
  const std::lock_guard lock(c.mutex_);
  if (!begun_ || ended_ || c.gone_) return;
  ended_ = c.ended_ = true;
  c.queue(framing_.is_chunkable ? kLastChunk : std::string_view());
} catch (const std::exception&) {
  connection_->close_soon();
}

void ConnectionResponder::on_gone(std::function<void()> callback) try {
  Connection& c = *connection_;
  const std::lock_guard lock(c.mutex_);
  if (ended_) return;
  if (c.gone_) {
    boost::asio::post(c.executor_, std::move(callback));
  } else {
    c.on_gone_ = std::move(callback);
  }
} catch (const std::exception&) {
  connection_->close_soon();
}

}  // namespace minfer::server
