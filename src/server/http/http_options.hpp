// Where the server listens, and the limits that it holds clients to. Plain data; checked by the command line.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace minfer::server {

struct HttpOptions {
  std::string host = "127.0.0.1";  // a name or an address
  uint16_t port = 8080;            // 0: any that is free
  // PEM files of the certificate chain and its key; both or neither.
  std::string tls_cert;
  std::string tls_key;
  int threads = 2;
  int64_t max_connections = 1024;
  size_t max_header_bytes = size_t{32} << 10;  // of the request's head: its first line and headers
  size_t max_body_bytes = size_t{32} << 20;
  size_t max_queued_bytes = size_t{1} << 20;        // of a stream's events unread, and 8 of its largest
  std::chrono::milliseconds header_timeout{10000};  // for the head, from the request's first byte
  // For the next request of a connection; also for a client to take something of what is sent to it.
  std::chrono::milliseconds idle_timeout{75000};
  std::chrono::milliseconds comment_interval{10000};  // a stream that says nothing so long sends a comment
};

// A body may be slow, but not slower: it has the header timeout, and a second more for so many bytes that have come.
inline constexpr size_t kLeastBodyBytesPerSecond = size_t{16} << 10;
// Of all bodies that are being received, in bodies of the largest size.
inline constexpr size_t kMostLargestBodies = 16;

}  // namespace minfer::server
