// Declaring and checking the server's options. See serve_options.hpp.
// Defaults stand in the help: they are part of what users rely on.
#include "cli/serve_options.hpp"

#include <algorithm>
#include <limits>

#include "cli/command.hpp"
#include "cli/io.hpp"
#include "cli/usage.hpp"
#include "engine/batcher.hpp"
#include "engine/runner.hpp"

namespace minfer::cli {
namespace {

constexpr int64_t kMaxKeyFileBytes = int64_t{1} << 20;
constexpr int64_t kMaxPort = 65535;
constexpr int64_t kMaxTimeMs = 24LL * 3600 * 1000;
constexpr int64_t kMaxConnections = 100000;
constexpr int64_t kMaxHttpThreads = 256;
constexpr int64_t kMaxBodyBytes = int64_t{1} << 30;

// A key is what can stand in a header.
void check_key(const std::string& key, const std::string& where) {
  const bool is_plain = std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 0x7F; });
  if (key.empty() || !is_plain) {
    throw UsageError(fmt::format("{}: a key is one or more ASCII characters without spaces", where));
  }
}

// A key a line; empty lines and those that begin with '#' are left out.
std::vector<std::string> read_keys(const std::string& path) {
  const std::string text = read_input(path, kMaxKeyFileBytes);
  std::vector<std::string> keys;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    check_key(line, fmt::format("--api-key-file {}", path));
    keys.push_back(std::move(line));
  }
  if (keys.empty()) throw UsageError(fmt::format("--api-key-file {}: no key in it; expected one a line", path));
  return keys;
}

void check_origin(const std::string& origin) {
  const bool is_plain = std::all_of(origin.begin(), origin.end(), [](char c) { return c > ' ' && c < 0x7F; });
  const size_t scheme = origin.find("://");
  if (origin == "*" || origin == "null") return;
  if (!is_plain || scheme == std::string::npos || origin.find('/', scheme + 3) != std::string::npos) {
    throw UsageError(fmt::format("--cors-origin {}: expected an origin such as https://example.org, or *", origin));
  }
}

}  // namespace

void add_serve_options(CLI::App& app, ServeOptions& options) {
  constexpr const char* kGroup = "Server";
  server::HttpOptions& http = options.server.http;
  const auto count = [&](const std::string& flag, int64_t& value, int64_t least, int64_t most,
                         const std::string& text) {
    app.add_option(flag, value, text)
        ->type_name("N")
        ->check(whole_number(least, most))
        ->capture_default_str()
        ->group(kGroup);
  };
  const auto text = [&](const std::string& flag, std::string& value, const std::string& type, const std::string& help) {
    return app.add_option(flag, value, help)->type_name(type)->check(not_empty())->group(kGroup);
  };
  const auto list = [&](const std::string& flag, std::vector<std::string>& values, const std::string& type,
                        const std::string& help) {
    app.add_option(flag, values, help)->type_name(type)->allow_extra_args(false)->check(not_empty())->group(kGroup);
  };
  text("--host", http.host, "HOST", "Address to listen on; 0.0.0.0: all")->capture_default_str();
  count("--port", options.port, 0, kMaxPort, "Port; 0: any that is free");
  text("--alias", options.alias, "NAME", "Name of the model for clients (default: the file's)");
  count("--parallel", options.parallel, 1, engine::kMaxSequences, "Requests that run at once, each with -c tokens");
  count("--max-queue", options.max_queue, 1, engine::kMaxWaiting, "Requests that wait beyond those");
  list("--api-key", options.server.router.api_keys, "KEY", "Key that clients need; may be repeated");
  text("--api-key-file", options.api_key_file, "FILE", "The same, a key a line");
  list("--cors-origin", options.server.router.cors_origins, "ORIGIN", "Site whose pages may ask; may be repeated");
  text("--tls-cert", http.tls_cert, "FILE", "Certificate chain (PEM): the server speaks HTTPS");
  text("--tls-key", http.tls_key, "FILE", "Its key (PEM)");
  text("--chat-template", options.template_file, "FILE", "A Jinja template in place of the model's");
  app.add_flag("--strict-fields", options.strict_fields, "Refuse requests with unknown fields")->group(kGroup);
  app.add_option_function<std::string>(
         "--max-body", [&options](const std::string& bytes) { options.max_body_bytes = *parse_bytes(bytes); },
         "Largest body of a request (default 32MiB)")
      ->type_name("BYTES")
      ->check(byte_size())
      ->group(kGroup);
  count("--header-timeout-ms", options.header_timeout_ms, 1, kMaxTimeMs, "Time for a request's head");
  count("--idle-timeout-ms", options.idle_timeout_ms, 1, kMaxTimeMs, "Time between two requests");
  count("--max-connections", http.max_connections, 1, kMaxConnections, "Connections at once");
  count("--drain-ms", options.drain_ms, 0, kMaxTimeMs, "At Ctrl-C or SIGTERM: time for running answers");
  app.add_option("--http-threads", http.threads, "Threads of the server")
      ->type_name("N")
      ->check(whole_number(1, kMaxHttpThreads))
      ->capture_default_str()
      ->group(kGroup);
}

void finish_serve_options(ServeOptions& options) {
  server::HttpOptions& http = options.server.http;
  server::RouterOptions& router = options.server.router;
  if (http.tls_cert.empty() != http.tls_key.empty()) {
    throw UsageError("--tls-cert and --tls-key go together; give both or neither");
  }
  if (options.max_body_bytes < 1 || options.max_body_bytes > kMaxBodyBytes) {
    throw UsageError(fmt::format("--max-body: expected 1 to {} bytes", kMaxBodyBytes));
  }
  for (const std::string& key : router.api_keys) check_key(key, "--api-key");
  for (const std::string& origin : router.cors_origins) check_origin(origin);
  if (!options.api_key_file.empty()) {
    for (std::string& key : read_keys(options.api_key_file)) router.api_keys.push_back(std::move(key));
  }
  check_utf8(options.alias, "--alias");
  http.port = static_cast<uint16_t>(options.port);
  http.max_body_bytes = static_cast<size_t>(options.max_body_bytes);
  http.header_timeout = std::chrono::milliseconds(options.header_timeout_ms);
  http.idle_timeout = std::chrono::milliseconds(options.idle_timeout_ms);
}

}  // namespace minfer::cli
