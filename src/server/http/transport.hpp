// A connection's bytes, plain or under TLS: the one difference between the two is in here. All calls and all
// completions are on the connection's strand; at most one read and one write are outstanding. Files outside http/ don't
// see this.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/system/error_code.hpp>
#include <functional>
#include <memory>

#include "server/http/http_options.hpp"

namespace minfer::server {

using ErrorCodeOf = boost::system::error_code;

class Transport {
 public:
  using Done = std::function<void(const ErrorCodeOf& error, size_t bytes)>;

  virtual ~Transport() = default;
  virtual void handshake(Done done) = 0;
  virtual void read_some(boost::asio::mutable_buffer buffer, Done done) = 0;
  virtual void write_some(boost::asio::const_buffer buffer, Done done) = 0;
  // Tells the client that nothing more will be written. What it still sends can be read from a plain connection.
  virtual void finish(Done done) = 0;
  // True where finish() ends reading too: what a client is still sending has to be read before.
  virtual bool finish_ends_reading() const = 0;
  // Outstanding operations complete with an error.
  virtual void close() = 0;
};

std::unique_ptr<Transport> make_plain_transport(boost::asio::ip::tcp::socket socket);
// `context` outlives it.
std::unique_ptr<Transport> make_tls_transport(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context& context);

// TLS 1.2 and later, for HTTP/1.1. Errors: io, naming the file and what OpenSSL says of it.
std::unique_ptr<boost::asio::ssl::context> make_tls_context(const HttpOptions& options);

}  // namespace minfer::server
