// One client's connection: reads a request, has it answered, and goes on to the next. Its strand runs everything but
// what is under the mutex: the answer, which comes from any thread (connection_responder.hpp), is put together there
// and waits for the strand to write it. One read is outstanding at all times, also while an answer is made: bytes that
// come are requests sent ahead, the end of the stream is a client that has gone. One lazy timer watches over all
// deadlines.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "server/http/http_server.hpp"
#include "server/http/request_reader.hpp"
#include "server/http/transport.hpp"

namespace minfer::server {

class Connection;

// What the connections of a server share. It outlives the server where a Responder does.
struct HttpShared {
  HttpOptions options;
  HttpCallbacks callbacks;
  std::unique_ptr<boost::asio::ssl::context> tls;
  boost::asio::io_context io;
  std::atomic<bool> draining = false;
  std::atomic<size_t> body_bytes = 0;  // of requests that are not answered yet

  std::mutex mutex;
  std::condition_variable changed;
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections;  // under the mutex
  size_t refused = 0;         // of those, beyond the limit; under the mutex
  int64_t answering = 0;      // requests; under the mutex
  bool watches_idle = false;  // under the mutex; who sets it may use the timer until it is reset
  boost::asio::steady_timer idle{io};
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  Connection(std::shared_ptr<HttpShared> shared, std::unique_ptr<Transport> transport,
             boost::asio::any_io_executor executor);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // `is_refused`: it is told that there are too many connections, and closed. It is in HttpShared::connections.
  void start(bool is_refused);
  // From any thread: drops the client.
  void close_soon() noexcept;

 private:
  friend class ConnectionResponder;
  enum class Phase { starting, reading, answering, finishing, closed };

  void guarded(void (Connection::*step)());
  void begin();
  void parse();
  bool take_head();
  bool count_body();
  void release_body();
  void dispatch();
  std::shared_ptr<Responder> begin_exchange(bool keeps_alive);
  void end_exchange(int status);
  void refuse(int status, const std::string& message);
  void start_read();
  void on_read(const ErrorCodeOf& error, size_t bytes);
  void on_end_of_stream(bool is_clean);
  void flush();
  void write_more();
  void on_written(const ErrorCodeOf& error, size_t bytes);
  void finish();
  void close();

  void arm(Clock::time_point deadline);
  void on_timer();
  Clock::time_point reading_deadline() const;
  void watch_answer(Clock::time_point now);

  // Under the mutex.
  void queue(std::string_view bytes);
  void wake_writer();

  const std::shared_ptr<HttpShared> shared_;
  const boost::asio::any_io_executor executor_;
  std::unique_ptr<Transport> transport_;
  boost::asio::steady_timer timer_;
  RequestReader reader_;
  Phase phase_ = Phase::starting;
  Admission admission_;
  std::array<char, size_t{16} << 10> input_ = {};
  bool is_refused_ = false;      // there are too many connections
  bool reading_ = false;         // a read is outstanding
  bool at_end_ = false;          // the client sends nothing any more
  bool leaves_body_ = false;     // unread, since the request was refused
  size_t counted_body_ = 0;      // in HttpShared::body_bytes
  bool receiving_ = false;       // a request's first byte has come
  Clock::time_point since_;      // then; otherwise since when it is idle
  Clock::time_point finish_at_;  // the latest end of the phase `finishing`
  bool timer_set_ = false;
  Clock::time_point timer_at_;
  bool writing_ = false;  // a write is outstanding
  std::string output_;    // what is being written
  size_t written_ = 0;    // of it
  Clock::time_point written_at_;

  std::mutex mutex_;
  std::string pending_;        // to be written next
  size_t unsent_ = 0;          // bytes of pending_ and the rest of output_
  bool flush_posted_ = false;  // the strand will look at pending_
  bool gone_ = false;          // nothing can be sent any more
  bool ended_ = false;         // the answer is complete in pending_
  bool streaming_ = false;     // the answer is a stream of events
  bool chunked_ = false;       // in chunks
  bool closes_after_ = false;  // this answer
  int status_ = 0;             // of this answer
  std::function<void()> on_gone_;
};

}  // namespace minfer::server
