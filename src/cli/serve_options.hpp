// The options of `minfer serve` that are about the server: where it listens, who may use it, and its limits.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "server/server.hpp"

namespace minfer::cli {

struct ServeOptions {
  server::ServerOptions server;
  std::string alias;
  std::string api_key_file;
  std::string template_file;
  bool strict_fields = false;
  int64_t parallel = 4;
  int64_t max_queue = 256;
  int64_t drain_ms = 20000;
  // As they were given; finish_serve_options brings them into `server`.
  int64_t port = 8080;
  int64_t header_timeout_ms = 10000;
  int64_t idle_timeout_ms = 75000;
  int64_t max_body_bytes = int64_t{32} << 20;
};

void add_serve_options(CLI::App& app, ServeOptions& options);
// Reads the key file and completes `options.server`. Errors: UsageError, naming the option; io.
void finish_serve_options(ServeOptions& options);

}  // namespace minfer::cli
