// One HTTP request and its answer, as handlers see them: no type of the HTTP library gets past http/. A handler is
// called on one of the server's I/O threads and must not block on the engine; it answers through the Responder, at once
// or later and from any thread. Plain data and one abstract class.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace minfer::server {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  // upper case
  std::string path;    // decoded, without the query
  std::string query;   // as sent, without '?'
  Headers headers;     // names in lower case
  std::string body;

  // The value of the first header `name` (lower case).
  std::optional<std::string_view> header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  Headers headers = {};
};

// The way back to one client. All calls are thread-safe, never block and never throw; what is sent to a client that has
// gone is dropped. Either send() once, or begin_events(), any number of send_event(), and end_events(). A client that
// does not read its events is dropped at a limit; a stream that is silent says a comment now and then. Let go without
// an answer, it answers 500.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void send(HttpResponse response) = 0;
  // A stream of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html).
  virtual void begin_events() = 0;
  // `data` is one line; `event` names it where the endpoint's events have names.
  virtual void send_event(std::string_view data, std::string_view event = {}) = 0;
  virtual void end_events() = 0;
  // Called at most once, on an I/O thread, when the client is seen to have gone before the answer ended; at once where
  // it is gone already.
  virtual void on_gone(std::function<void()> callback) = 0;
};

using Handler = std::function<void(const HttpRequest& request, const std::shared_ptr<Responder>& responder)>;

// One row of the server's table of endpoints.
struct Route {
  std::string_view method;
  std::string_view path;    // exact, or ending in "/*": every longer path that begins so
  bool needs_key = true;    // refused without the API key, where one is set
  bool needs_model = true;  // 503 until the model is loaded
  Handler handler;
};

}  // namespace minfer::server
