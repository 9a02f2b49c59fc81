// The HTTP server: a listener, its connections, and a few threads that run them and the handlers. HTTP/1.1 with
// keep-alive, and requests sent ahead, which are answered in order; TLS; limits on all that a client can send, hold or
// leave unread. What a path means is decided by the one who makes it (server/router.hpp). Source: RFC 9110, RFC 9112.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/exchange.hpp"
#include "server/http/http_options.hpp"

namespace minfer::server {

// What is decided of a request by its head, before its body is read.
struct Admission {
  Handler handler;            // gets the request once it is there; empty: it is refused
  HttpResponse refusal = {};  // with that
  Headers headers = {};       // of its answer, whatever that will be
  std::string endpoint = {};  // for the count of answers
};

struct HttpCallbacks {
  // `head` has no body yet. Called on the threads of the server; must be thread-safe.
  std::function<Admission(const HttpRequest& head)> admit;
  // Each answer, with its status; kClientGone where the client left before its end.
  std::function<void(std::string_view endpoint, int status)> answered;
  // Nothing has been answered for kIdleTime, after something was; or empty.
  std::function<void()> idle = {};
};

inline constexpr std::chrono::seconds kIdleTime(1);

inline constexpr int kClientGone = 499;  // as nginx's logs have it

struct HttpShared;

class HttpServer {
 public:
  // Listens from now on. Errors: io, naming the address or the TLS file, the reason and a way out.
  HttpServer(const HttpOptions& options, HttpCallbacks callbacks);
  // Responders that outlive it drop what they are told.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // "http://127.0.0.1:8080", with the port that was chosen.
  const std::string& address() const { return address_; }
  int64_t connections() const;
  // Accepts nothing any more and waits until no request is being answered, at most so long. Connections answer their
  // last request. How many requests are still being answered.
  int64_t drain(std::chrono::milliseconds most);
  // Drops all connections, whose clients count as gone, and ends the threads.
  void stop();

 private:
  struct Listener;

  std::shared_ptr<HttpShared> shared_;
  std::unique_ptr<Listener> listener_;
  std::string address_;
};

}  // namespace minfer::server
