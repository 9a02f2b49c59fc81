// Plain and TLS connections on Asio. See transport.hpp.
// The TLS template is instantiated here alone: it is what takes long to compile.
#include "server/http/transport.hpp"

#include <boost/asio/ssl/stream.hpp>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.hpp"

namespace minfer::server {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

void close_socket(tcp::socket& socket) {
  ErrorCodeOf ignored;
  std::ignore = socket.close(ignored);
}

class PlainTransport : public Transport {
 public:
  explicit PlainTransport(tcp::socket socket) : socket_(std::move(socket)) {}

  void handshake(Done done) override {
    asio::post(socket_.get_executor(), [done = std::move(done)] { done({}, 0); });
  }
  void read_some(asio::mutable_buffer buffer, Done done) override {
    socket_.async_read_some(asio::mutable_buffers_1(buffer), std::move(done));
  }
  void write_some(asio::const_buffer buffer, Done done) override {
    socket_.async_write_some(asio::const_buffers_1(buffer), std::move(done));
  }
  void finish(Done done) override {
    ErrorCodeOf error;
    std::ignore = socket_.shutdown(tcp::socket::shutdown_send, error);
    asio::post(socket_.get_executor(), [done = std::move(done), error] { done(error, 0); });
  }
  bool finish_ends_reading() const override { return false; }
  void close() override { close_socket(socket_); }

 private:
  tcp::socket socket_;
};

class TlsTransport : public Transport {
 public:
  TlsTransport(tcp::socket socket, asio::ssl::context& context) : stream_(std::move(socket), context) {}

  void handshake(Done done) override {
    stream_.async_handshake(asio::ssl::stream_base::server,
                            [done = std::move(done)](const ErrorCodeOf& error) { done(error, 0); });
  }
  void read_some(asio::mutable_buffer buffer, Done done) override {
    stream_.async_read_some(asio::mutable_buffers_1(buffer), std::move(done));
  }
  void write_some(asio::const_buffer buffer, Done done) override {
    stream_.async_write_some(asio::const_buffers_1(buffer), std::move(done));
  }
  void finish(Done done) override {
    // A read that waits would keep what shutting down has to read.
    ErrorCodeOf ignored;
    std::ignore = stream_.lowest_layer().cancel(ignored);
    stream_.async_shutdown([done = std::move(done)](const ErrorCodeOf& error) { done(error, 0); });
  }
  bool finish_ends_reading() const override { return true; }
  void close() override { close_socket(stream_.next_layer()); }

 private:
  asio::ssl::stream<tcp::socket> stream_;
};

constexpr unsigned char kAlpnHttp11[] = "\x08http/1.1";

// ALPN: HTTP/1.1 where the client offers it. One that offers something else alone is not refused: many speak it anyway.
int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* offered,
                    unsigned int offered_size, void*) {
  unsigned char* chosen = nullptr;
  const int answer =
      SSL_select_next_proto(&chosen, out_size, kAlpnHttp11, sizeof kAlpnHttp11 - 1, offered, offered_size);
  *out = chosen;
  return answer == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

void check_loaded(const ErrorCodeOf& error, std::string_view option, const std::string& file) {
  if (error) {
    fail(ErrorCode::io, "{} {}: {}; expected a PEM file, and a key that fits the certificate and has no passphrase",
         option, file, error.message());
  }
}

}  // namespace

std::unique_ptr<Transport> make_plain_transport(tcp::socket socket) {
  return std::make_unique<PlainTransport>(std::move(socket));
}

std::unique_ptr<Transport> make_tls_transport(tcp::socket socket, asio::ssl::context& context) {
  return std::make_unique<TlsTransport>(std::move(socket), context);
}

std::unique_ptr<asio::ssl::context> make_tls_context(const HttpOptions& options) {
  auto context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
  SSL_CTX* const native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_alpn_select_cb(native, choose_protocol, nullptr);
  ErrorCodeOf error;
  // Otherwise OpenSSL would ask for a passphrase on the terminal.
  std::ignore =
      context->set_password_callback([](size_t, asio::ssl::context::password_purpose) { return std::string(); }, error);
  std::ignore = context->use_certificate_chain_file(options.tls_cert, error);
  check_loaded(error, "--tls-cert", options.tls_cert);
  std::ignore = context->use_private_key_file(options.tls_key, asio::ssl::context::pem, error);
  check_loaded(error, "--tls-key", options.tls_key);
  return context;
}

}  // namespace minfer::server
