// A connection's life on its strand. See connection.hpp.
// Every completion goes through guarded(): what is thrown there, memory that is used up for instance, drops the client.
#include "server/http/connection.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <utility>

#include "server/api_error.hpp"
#include "server/http/connection_responder.hpp"

namespace minfer::server {

namespace asio = boost::asio;
using std::chrono::milliseconds;

namespace {

// After the last answer of a connection its client is read for a while: closing over bytes that nobody has read would
// take the answer from it.
constexpr milliseconds kFinishTime(1000);
constexpr milliseconds kFinishTimeWithBody(5000);
// An output buffer that has grown for a large answer is given back.
constexpr size_t kKeptOutputBytes = size_t{64} << 10;

// After the last answer: tells that the server is idle, unless a request is being answered by then.
void watch_idle(HttpShared& shared) {
  shared.idle.expires_after(kIdleTime);
  shared.idle.async_wait([&shared](const ErrorCodeOf& error) {
    bool is_idle = false;
    {
      const std::lock_guard lock(shared.mutex);
      shared.watches_idle = false;
      is_idle = !error && shared.answering == 0;
    }
    if (is_idle) shared.callbacks.idle();
  });
}

}  // namespace

Connection::Connection(std::shared_ptr<HttpShared> shared, std::unique_ptr<Transport> transport,
                       asio::any_io_executor executor)
    : shared_(std::move(shared)),
      executor_(std::move(executor)),
      transport_(std::move(transport)),
      timer_(executor_),
      reader_(shared_->options.max_header_bytes, shared_->options.max_body_bytes) {}

void Connection::guarded(void (Connection::*step)()) {
  try {
    (this->*step)();
  } catch (const std::exception&) {
    close();
  }
}

void Connection::start(bool is_refused) {
  is_refused_ = is_refused;
  since_ = Clock::now();
  arm(since_ + shared_->options.header_timeout);
  transport_->handshake([self = shared_from_this()](const ErrorCodeOf& error, size_t) {
    if (self->phase_ != Phase::starting) return;
    self->guarded(error ? &Connection::close : &Connection::begin);
  });
}

void Connection::begin() {
  phase_ = Phase::reading;
  since_ = Clock::now();
  if (is_refused_) {
    refuse(503, "the server has as many connections as it takes (--max-connections); try again later");
  } else {
    parse();
  }
}

void Connection::close_soon() noexcept {
  try {
    asio::post(executor_, [self = shared_from_this()] { self->close(); });
  } catch (const std::exception&) {
    // No memory even for that: the connection ends by one of its timeouts.
  }
}

// Reads as many bytes as there are into a request, and has it answered once it is whole.
void Connection::parse() {
  while (phase_ == Phase::reading) {
    switch (reader_.advance()) {
      case RequestReader::State::more:
        if (!reader_.is_fresh() && !receiving_) {
          receiving_ = true;
          since_ = Clock::now();
        }
        if (!count_body()) return;
        arm(reading_deadline());
        start_read();
        return;
      case RequestReader::State::head:
        if (!take_head()) return;
        break;
      case RequestReader::State::whole:
        if (!count_body()) return;
        dispatch();
        return;
      case RequestReader::State::failed:
        leaves_body_ = true;
        refuse(reader_.status(), reader_.message());
        return;
    }
  }
}

// Decides what becomes of a request whose head is there; false where it is answered already.
bool Connection::take_head() {
  if (!receiving_) {
    receiving_ = true;
    since_ = Clock::now();
  }
  admission_ = shared_->callbacks.admit(reader_.request());
  if (!admission_.handler) {
    // Whoever may not ask need not send the rest.
    leaves_body_ = reader_.has_body();
    begin_exchange(!leaves_body_ && reader_.keeps_alive())->send(std::move(admission_.refusal));
    return false;
  }
  if (reader_.expects_continue() && reader_.has_body()) {
    const std::lock_guard lock(mutex_);
    queue("HTTP/1.1 100 Continue\r\n\r\n");
  }
  return true;
}

// Bodies wait in memory until they are whole: all of them together have a limit too.
bool Connection::count_body() {
  if (!admission_.handler) return true;
  const size_t received = reader_.received_body();
  shared_->body_bytes += received - counted_body_;
  counted_body_ = received;
  if (shared_->body_bytes <= kMostLargestBodies * shared_->options.max_body_bytes) return true;
  leaves_body_ = true;
  release_body();  // before the others are asked: only what is too much is refused
  refuse(503, "the server has as many large requests as it takes; try again later");
  return false;
}

void Connection::release_body() {
  shared_->body_bytes -= counted_body_;
  counted_body_ = 0;
}

void Connection::dispatch() {
  const auto responder = begin_exchange(reader_.keeps_alive());
  try {
    admission_.handler(reader_.request(), responder);
  } catch (...) {
    responder->send(error_response(current_api_error()));
  }
  reader_.request() = {};
  start_read();
}

std::shared_ptr<Responder> Connection::begin_exchange(bool keeps_alive) {
  ConnectionResponder::Framing framing{.keeps_alive = keeps_alive};
  if (receiving_ && reader_.has_head()) {
    framing.is_chunkable = reader_.is_chunkable();
    framing.leaves_out_body = reader_.request().method == "HEAD";
  }
  auto responder = std::make_shared<ConnectionResponder>(shared_from_this(), framing, admission_.headers);
  phase_ = Phase::answering;
  const std::lock_guard lock(shared_->mutex);
  ++shared_->answering;
  return responder;
}

// The request that is being answered has had its answer, or has lost its client.
void Connection::end_exchange(int status) {
  release_body();
  if (shared_->callbacks.answered) shared_->callbacks.answered(admission_.endpoint, status);
  admission_ = {};
  bool is_last = false;
  {
    const std::lock_guard lock(shared_->mutex);
    is_last = --shared_->answering == 0 && shared_->callbacks.idle && !std::exchange(shared_->watches_idle, true);
  }
  shared_->changed.notify_all();
  if (is_last) watch_idle(*shared_);
}

// Answers a request that can't be read; the connection can't go on after it.
void Connection::refuse(int status, const std::string& message) {
  const bool is_server_error = status >= 500 && status != 501;
  const ApiError error{.status = status,
                       .message = message,
                       .type = is_server_error ? "server_error" : "invalid_request_error",
                       .code = status == 503 ? "overloaded" : "",
                       .retry_after_s = status == 503 ? 1 : 0};
  begin_exchange(false)->send(error_response(error));
}

void Connection::start_read() {
  if (reading_ || at_end_ || phase_ == Phase::closed) return;
  const bool discards = phase_ == Phase::finishing;
  const size_t room = discards ? input_.size() : std::min(reader_.room(), input_.size());
  // A client that has sent so much ahead is not watched until it is its turn.
  if (room == 0) return;
  reading_ = true;
  transport_->read_some(asio::buffer(input_.data(), room),
                        [self = shared_from_this()](const ErrorCodeOf& error, size_t bytes) {
                          self->reading_ = false;
                          try {
                            self->on_read(error, bytes);
                          } catch (const std::exception&) {
                            self->close();
                          }
                        });
}

void Connection::on_read(const ErrorCodeOf& error, size_t bytes) {
  if (phase_ == Phase::closed) return;
  if (error) {
    on_end_of_stream(error == asio::error::eof || error == asio::ssl::error::stream_truncated);
    return;
  }
  if (phase_ != Phase::finishing) reader_.append({input_.data(), bytes});
  if (phase_ == Phase::reading) {
    parse();
  } else {
    start_read();
  }
}

void Connection::on_end_of_stream(bool is_clean) {
  at_end_ = true;
  if (phase_ == Phase::answering) {
    const std::lock_guard lock(mutex_);
    // A complete answer is still written: some clients close their side once they have asked.
    if (is_clean && ended_) return;
  } else if (phase_ == Phase::reading && is_clean && !reader_.is_fresh()) {
    refuse(400, "the request ends early");
    return;
  } else if (phase_ == Phase::finishing && transport_->finish_ends_reading() && !leaves_body_) {
    return;  // finishing has ended the reading
  }
  close();
}

void Connection::queue(std::string_view bytes) {
  pending_ += bytes;
  unsent_ += bytes.size();
  wake_writer();
}

void Connection::wake_writer() {
  if (flush_posted_) return;
  flush_posted_ = true;
  asio::post(executor_, [self = shared_from_this()] { self->guarded(&Connection::flush); });
}

// Writes what is queued, or ends the answer where all of it is written.
void Connection::flush() {
  if (writing_ || phase_ == Phase::closed) return;
  bool has_ended = false;
  int status = 0;
  bool closes = false;
  {
    const std::lock_guard lock(mutex_);
    flush_posted_ = false;
    output_.clear();
    if (output_.capacity() > kKeptOutputBytes) output_.shrink_to_fit();
    output_.swap(pending_);
    has_ended = ended_ && output_.empty();
    status = status_;
    closes = closes_after_;
    if (has_ended) {
      ended_ = streaming_ = false;
      on_gone_ = nullptr;
    }
  }
  const auto now = Clock::now();
  if (!output_.empty()) {
    writing_ = true;
    written_ = 0;
    written_at_ = now;
    if (phase_ == Phase::answering) watch_answer(now);
    write_more();
    return;
  }
  if (phase_ != Phase::answering) return;
  if (!has_ended) {
    watch_answer(now);
    return;
  }
  phase_ = Phase::finishing;
  end_exchange(status);
  if (closes || at_end_) {
    finish();
    return;
  }
  phase_ = Phase::reading;
  receiving_ = false;
  since_ = now;
  reader_.next();
  parse();
}

void Connection::write_more() {
  transport_->write_some(asio::buffer(output_.data() + written_, output_.size() - written_),
                         [self = shared_from_this()](const ErrorCodeOf& error, size_t bytes) {
                           try {
                             self->on_written(error, bytes);
                           } catch (const std::exception&) {
                             self->close();
                           }
                         });
}

void Connection::on_written(const ErrorCodeOf& error, size_t bytes) {
  if (phase_ == Phase::closed) return;
  if (error) {
    close();
    return;
  }
  written_ += bytes;
  written_at_ = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    unsent_ -= bytes;
    if (written_ == output_.size()) flush_posted_ = true;  // flush() follows
  }
  if (written_ < output_.size()) {
    write_more();
    return;
  }
  writing_ = false;
  flush();
}

// Ends the connection after its last answer.
void Connection::finish() {
  if (at_end_) {
    close();
    return;
  }
  finish_at_ = Clock::now() + (leaves_body_ ? kFinishTimeWithBody : kFinishTime);
  arm(finish_at_);
  if (transport_->finish_ends_reading()) {
    if (leaves_body_) {
      start_read();
    } else {
      transport_->finish([self = shared_from_this()](const ErrorCodeOf&, size_t) { self->close(); });
    }
    return;
  }
  transport_->finish([self = shared_from_this()](const ErrorCodeOf&, size_t) { self->start_read(); });
}

void Connection::close() {
  if (phase_ == Phase::closed) return;
  const bool was_answering = phase_ == Phase::answering;
  phase_ = Phase::closed;
  std::function<void()> on_gone;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    unsent_ = 0;
    pending_.clear();
    on_gone.swap(on_gone_);
  }
  timer_.cancel();
  transport_->close();
  if (was_answering) {
    try {
      if (on_gone) on_gone();
    } catch (const std::exception&) {
      // The client is gone whatever the handler makes of it.
    }
    end_exchange(kClientGone);
  }
  release_body();
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->connections.erase(this) > 0 && is_refused_) --shared_->refused;
  }
  shared_->changed.notify_all();
}

// Deadlines only move away while a connection works: the timer is not set anew for that, but looks again when it fires.
void Connection::arm(Clock::time_point deadline) {
  if (timer_set_ && timer_at_ <= deadline) return;
  timer_set_ = true;
  timer_at_ = deadline;
  timer_.expires_at(deadline);
  timer_.async_wait([self = shared_from_this()](const ErrorCodeOf& error) {
    if (!error) self->guarded(&Connection::on_timer);
  });
}

Connection::Clock::time_point Connection::reading_deadline() const {
  const HttpOptions& options = shared_->options;
  if (!receiving_) return since_ + options.idle_timeout;
  return since_ + options.header_timeout +
         milliseconds(1000 * static_cast<int64_t>(counted_body_ / kLeastBodyBytesPerSecond));
}

void Connection::on_timer() {
  timer_set_ = false;
  const auto now = Clock::now();
  switch (phase_) {
    case Phase::starting:
      close();
      break;
    case Phase::finishing:
      if (now >= finish_at_) {
        close();
      } else {
        arm(finish_at_);
      }
      break;
    case Phase::reading:
      if (now < reading_deadline()) {
        arm(reading_deadline());
      } else if (receiving_) {
        leaves_body_ = true;
        refuse(408, "the request did not come in time");
      } else {
        close();
      }
      break;
    case Phase::answering:
      watch_answer(now);
      break;
    case Phase::closed:
      break;
  }
}

// While an answer is made: a client that takes nothing is dropped, a stream that is silent says that it is there.
void Connection::watch_answer(Clock::time_point now) {
  if (writing_) {
    const auto deadline = written_at_ + shared_->options.idle_timeout;
    if (now >= deadline) {
      close();
    } else {
      arm(deadline);
    }
    return;
  }
  const std::lock_guard lock(mutex_);
  if (!streaming_ || ended_ || flush_posted_) return;
  const auto comment_at = written_at_ + shared_->options.comment_interval;
  if (now < comment_at) {
    arm(comment_at);
  } else {
    constexpr std::string_view kComment = ": still here\n\n";
    if (chunked_) {
      queue(fmt::format("{:x}\r\n{}\r\n", kComment.size(), kComment));
    } else {
      queue(kComment);
    }
  }
}

}  // namespace minfer::server
