// The listener and the threads. See http_server.hpp.
// All threads run one io_context: a handler that takes long holds up its own connection and one thread, no other.
#include "server/http/http_server.hpp"

#include <fmt/format.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "server/http/connection.hpp"

namespace minfer::server {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// Beyond the limit of connections so many more are told so; others are closed without a word.
constexpr size_t kMostRefused = 64;
// Where the system has no more file descriptors, it is asked again later.
constexpr std::chrono::seconds kAcceptPause(1);
// For connections to notice that they were closed.
constexpr std::chrono::seconds kMostStopTime(2);

std::string place(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", address, endpoint.port())
                                    : fmt::format("{}:{}", address, endpoint.port());
}

tcp::acceptor listen(asio::io_context& io, const HttpOptions& options) {
  ErrorCodeOf error;
  const auto found = tcp::resolver(io).resolve(options.host, fmt::to_string(options.port),
                                               tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error) {
    fail(ErrorCode::io, "--host {}: {}; expected an address of this machine, such as 127.0.0.1 or 0.0.0.0",
         options.host, error.message());
  }
  for (const auto& entry : found) {
    const tcp::endpoint endpoint = entry.endpoint();
    tcp::acceptor acceptor(asio::make_strand(io));
    std::ignore = acceptor.open(endpoint.protocol(), error);  // `error` says the same
    if (!error) std::ignore = acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) std::ignore = acceptor.bind(endpoint, error);
    if (!error) std::ignore = acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (!error) return acceptor;
  }
  fail(ErrorCode::io, "can't listen on {} port {}: {}; choose others with --host and --port (0: any that is free)",
       options.host, options.port, error.message());
}

}  // namespace

struct HttpServer::Listener {
  explicit Listener(std::shared_ptr<HttpShared> of)
      : shared(std::move(of)),
        acceptor(listen(shared->io, shared->options)),
        pause(acceptor.get_executor()),
        work(asio::make_work_guard(shared->io)) {}

  void accept() {
    acceptor.async_accept(
        asio::any_io_executor(asio::make_strand(shared->io)),
        [this](const ErrorCodeOf& error, tcp::socket socket) { on_accept(error, std::move(socket)); });
  }

  void on_accept(const ErrorCodeOf& error, tcp::socket socket) {
    if (!acceptor.is_open()) return;
    if (error) {
      log(LogLevel::warning, "a connection could not be taken: {}", error.message());
      pause.expires_after(kAcceptPause);
      pause.async_wait([this](const ErrorCodeOf& stopped) {
        if (!stopped && acceptor.is_open()) accept();
      });
      return;
    }
    try {
      start(std::move(socket));
    } catch (const std::exception& exception) {
      log(LogLevel::warning, "a connection could not be taken: {}", exception.what());
    }
    accept();
  }

  void start(tcp::socket socket) {
    ErrorCodeOf ignored;
    std::ignore = socket.set_option(tcp::no_delay(true), ignored);
    const asio::any_io_executor executor = socket.get_executor();
    auto transport =
        shared->tls ? make_tls_transport(std::move(socket), *shared->tls) : make_plain_transport(std::move(socket));
    const auto connection = std::make_shared<Connection>(shared, std::move(transport), executor);
    bool is_refused = false;
    {
      const std::lock_guard lock(shared->mutex);
      const size_t taken = shared->connections.size() - shared->refused;
      is_refused = taken >= static_cast<size_t>(shared->options.max_connections);
      if (is_refused && shared->refused >= kMostRefused) return;
      shared->connections.emplace(connection.get(), connection);
      if (is_refused) ++shared->refused;
    }
    asio::post(executor, [connection, is_refused] { connection->start(is_refused); });
  }

  std::shared_ptr<HttpShared> shared;
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::vector<std::thread> threads;
};

HttpServer::HttpServer(const HttpOptions& options, HttpCallbacks callbacks) : shared_(std::make_shared<HttpShared>()) {
  shared_->options = options;
  shared_->callbacks = std::move(callbacks);
  if (!options.tls_cert.empty()) shared_->tls = make_tls_context(options);
  listener_ = std::make_unique<Listener>(shared_);
  address_ = fmt::format("{}://{}", shared_->tls ? "https" : "http", place(listener_->acceptor.local_endpoint()));
  listener_->accept();
  for (int i = 0; i < options.threads; ++i) {
    listener_->threads.emplace_back([shared = shared_] {
      while (!shared->io.stopped()) {
        try {
          shared->io.run();
        } catch (const std::exception& error) {
          log(LogLevel::error, "server: {}", error.what());
        }
      }
    });
  }
}

HttpServer::~HttpServer() {
  stop();
}

int64_t HttpServer::connections() const {
  const std::lock_guard lock(shared_->mutex);
  return static_cast<int64_t>(shared_->connections.size());
}

int64_t HttpServer::drain(std::chrono::milliseconds most) {
  shared_->draining = true;
  asio::post(listener_->acceptor.get_executor(), [listener = listener_.get()] {
    ErrorCodeOf ignored;
    std::ignore = listener->acceptor.close(ignored);
    listener->pause.cancel();
  });
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait_for(lock, most, [this] { return shared_->answering == 0; });
  return shared_->answering;
}

void HttpServer::stop() {
  if (listener_ == nullptr) return;
  drain({});
  {
    std::unique_lock lock(shared_->mutex);
    for (const auto& [key, held] : shared_->connections) {
      if (const auto connection = held.lock()) connection->close_soon();
    }
    shared_->changed.wait_for(lock, kMostStopTime, [this] { return shared_->connections.empty(); });
  }
  listener_->work.reset();
  shared_->io.stop();
  for (std::thread& thread : listener_->threads) thread.join();
  // What is still queued holds its connections, which hold what they share: it ends here, where all are closed.
  shared_->io.restart();
  shared_->io.poll();
  listener_.reset();
}

}  // namespace minfer::server
