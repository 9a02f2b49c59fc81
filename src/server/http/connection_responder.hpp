// The Responder of one request on a connection: turns what a handler says into bytes in the connection's queue, under
// its mutex, and wakes the strand that writes them. One that goes away without an answer answers 500, or cuts its
// stream: no client waits for an answer that nobody makes.
#pragma once

#include <memory>

#include "server/http/connection.hpp"

namespace minfer::server {

class ConnectionResponder : public Responder {
 public:
  struct Framing {
    bool keeps_alive = true;       // the client wants to go on
    bool is_chunkable = true;      // HTTP/1.1
    bool leaves_out_body = false;  // HEAD
  };

  // `common` are headers of every answer.
  ConnectionResponder(std::shared_ptr<Connection> connection, const Framing& framing, Headers common);
  ~ConnectionResponder() override;
  ConnectionResponder(const ConnectionResponder&) = delete;
  ConnectionResponder& operator=(const ConnectionResponder&) = delete;

  void send(HttpResponse response) override;
  void begin_events() override;
  void send_event(std::string_view data, std::string_view event) override;
  void end_events() override;
  void on_gone(std::function<void()> callback) override;

 private:
  bool keeps_alive() const;
  void stream(std::string_view prefix, std::string_view middle, std::string_view data);

  const std::shared_ptr<Connection> connection_;
  const Framing framing_;
  const Headers common_;
  // Under the connection's mutex.
  bool begun_ = false;
  bool ended_ = false;
  size_t largest_event_ = 0;  // bytes
};

}  // namespace minfer::server
