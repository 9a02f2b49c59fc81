// A server without a model, for http_test.py: the product's HTTP under routes that echo, stream, wait and fail on
// demand. Usage: http_test_server [OPTION=VALUE ...], options as in the table of main(); it prints its address, runs
// until stdin ends, then drains and prints how many requests were abandoned.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "server/server.hpp"

namespace minfer::server {
namespace {

// Clients that went away before their answer was complete.
std::atomic<int> gone = 0;

void echo(const HttpRequest& request, const std::shared_ptr<Responder>& responder) {
  std::string headers;
  for (const auto& [name, value] : request.headers) headers += name + ": " + value + "\n";
  const std::string what = request.query == "headers" ? headers
                           : request.query == "size"  ? std::to_string(request.body.size())
                                                      : request.body;
  responder->send(
      {.content_type = "text/plain", .body = request.method + " " + request.path + "?" + request.query + "\n" + what});
}

// ?count=N&size=N&pause_ms=N: so many events; from a thread of its own, as the engine's are.
std::map<std::string, int> numbers(const std::string& query) {
  std::map<std::string, int> found;
  for (size_t begin = 0; begin < query.size();) {
    const size_t end = std::min(query.find('&', begin), query.size());
    const std::string part = query.substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = part.find('=');
    if (equals != std::string::npos) found[part.substr(0, equals)] = std::stoi(part.substr(equals + 1));
  }
  return found;
}

void stream(const HttpRequest& request, const std::shared_ptr<Responder>& responder) {
  std::thread([options = numbers(request.query), responder]() mutable {
    const auto left = std::make_shared<std::atomic<bool>>(false);
    responder->on_gone([left] {
      *left = true;
      ++gone;
    });
    responder->begin_events();
    for (int i = 0; i < options["count"] && !*left; ++i) {
      responder->send_event(std::string(static_cast<size_t>(options["size"]), 'x') + std::to_string(i),
                            options["named"] != 0 ? "tick" : "");
      std::this_thread::sleep_for(std::chrono::milliseconds(options["pause_ms"]));
    }
    responder->end_events();
  }).detach();
}

// ?ms=N: answers so much later.
void wait(const HttpRequest& request, const std::shared_ptr<Responder>& responder) {
  std::thread([options = numbers(request.query), responder]() mutable {
    responder->on_gone([] { ++gone; });
    std::this_thread::sleep_for(std::chrono::milliseconds(options["ms"]));
    responder->send({.body = "{\"waited\":true}"});
  }).detach();
}

std::vector<Route> routes(ServerState& state) {
  const auto fail_in_handler = [](const HttpRequest&, const auto&) { fail(ErrorCode::busy, "the queue is full"); };
  const auto give_up = [](const HttpRequest&, const auto&) {};
  const auto give_up_stream = [](const HttpRequest&, const std::shared_ptr<Responder>& responder) {
    responder->begin_events();
    responder->send_event("one");
  };
  const auto tell_gone = [](const HttpRequest&, const std::shared_ptr<Responder>& responder) {
    responder->send({.body = std::to_string(gone)});
  };
  const auto progress = [&state](const HttpRequest&, const std::shared_ptr<Responder>& responder) {
    state.set_progress(0.42);
    responder->send({});
  };
  return {{"GET", "/echo", true, false, echo},         {"POST", "/echo", true, false, echo},
          {"GET", "/below/*", true, false, echo},      {"GET", "/stream", true, false, stream},
          {"GET", "/wait", true, false, wait},         {"POST", "/busy", true, false, fail_in_handler},
          {"GET", "/gives_up", true, false, give_up},  {"GET", "/cuts", true, false, give_up_stream},
          {"GET", "/gone", true, false, tell_gone},    {"POST", "/model", true, true, echo},
          {"POST", "/progress", true, false, progress}};
}

int run(int argc, char** argv) {
  ServerOptions options;
  options.http.port = 0;
  int64_t drain_ms = 1000;
  const std::map<std::string, std::function<void(const std::string&)>> table = {
      {"key", [&](const auto& v) { options.router.api_keys.push_back(v); }},
      {"cors", [&](const auto& v) { options.router.cors_origins.push_back(v); }},
      {"cert", [&](const auto& v) { options.http.tls_cert = v; }},
      {"tls_key", [&](const auto& v) { options.http.tls_key = v; }},
      {"threads", [&](const auto& v) { options.http.threads = std::stoi(v); }},
      {"connections", [&](const auto& v) { options.http.max_connections = std::stoi(v); }},
      {"body", [&](const auto& v) { options.http.max_body_bytes = std::stoul(v); }},
      {"queued", [&](const auto& v) { options.http.max_queued_bytes = std::stoul(v); }},
      {"header_ms", [&](const auto& v) { options.http.header_timeout = std::chrono::milliseconds(std::stoi(v)); }},
      {"idle_ms", [&](const auto& v) { options.http.idle_timeout = std::chrono::milliseconds(std::stoi(v)); }},
      {"comment_ms", [&](const auto& v) { options.http.comment_interval = std::chrono::milliseconds(std::stoi(v)); }},
      {"drain_ms", [&](const auto& v) { drain_ms = std::stoi(v); }},
  };
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    table.at(argument.substr(0, equals))(argument.substr(equals + 1));
  }
  ServerState state;
  Metrics metrics;
  Server server(options, state, metrics, routes(state));
  std::cout << server.address() << std::endl;
  std::cin.ignore(1);  // the end of stdin
  const int64_t left = server.drain(std::chrono::milliseconds(drain_ms));
  server.stop();
  std::cout << "abandoned " << left << std::endl;
  return 0;
}

}  // namespace
}  // namespace minfer::server

int main(int argc, char** argv) {
  try {
    return minfer::server::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
