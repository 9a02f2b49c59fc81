// Bytes of a connection to requests, one after another: Beast's parser, and the rules that it leaves to its user. What
// may be read in two ways (both lengths, a transfer coding that is not plainly chunked, a second or missing Host) is
// refused, since a proxy before us may have read the other one. Trailers are dropped. The bytes of
// requests that a client sends ahead wait in here. One thread. Source: RFC 9110, RFC 9112.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/exchange.hpp"

namespace minfer::server {

class RequestReader {
 public:
  enum class State {
    more,    // the request is not there yet
    head,    // its head is; told once, before anything of the body is looked at
    whole,   // all of it
    failed,  // it is malformed or too large: see status() and message()
  };

  RequestReader(size_t max_header_bytes, size_t max_body_bytes);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // Room for so many bytes more; 0 where a client has sent too far ahead.
  size_t room() const;
  // `bytes` are at most room().
  void append(std::string_view bytes);
  // Reads on as far as the bytes go. Not after `whole` or `failed`.
  State advance();
  // Begins the next request, which may be there already.
  void next();

  // Nothing of a request is there.
  bool is_fresh() const;

  bool has_head() const;

  // From `head` on.
  HttpRequest& request();
  bool keeps_alive() const;      // the client wants to go on after the answer
  bool is_chunkable() const;     // HTTP/1.1: the answer may come in chunks
  bool has_body() const;         // after the head
  size_t declared_body() const;  // bytes by Content-Length; 0 without one
  size_t received_body() const;  // bytes of the body so far
  bool expects_continue() const;

  // Of a failure: an HTTP status, and a sentence.
  int status() const { return status_; }
  const std::string& message() const { return message_; }

 private:
  struct Parser;

  State refuse(int status, std::string message);
  State take_head();
  State check_head();
  std::string parse_fault() const;

  size_t max_header_bytes_;
  size_t max_body_bytes_;
  std::unique_ptr<Parser> parser_;
  HttpRequest request_;
  int status_ = 0;
  std::string message_;
};

}  // namespace minfer::server
