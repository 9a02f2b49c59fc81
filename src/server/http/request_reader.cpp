// The reader of requests on Beast's parser. See request_reader.hpp.
// The parser is fed by hand rather than by Beast's read operations: the connection then has one read of the socket
// outstanding at all times, which also notices a client that goes away.
#include "server/http/request_reader.hpp"

#include <algorithm>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>

#include "base/error.hpp"
#include "server/http/target.hpp"

namespace minfer::server {

namespace http = boost::beast::http;
using boost::beast::error_code;

// Bytes that may wait behind the head: requests sent ahead, and the piece of a body that is being read.
constexpr size_t kMaxAheadBytes = size_t{64} << 10;

struct RequestReader::Parser {
  explicit Parser(size_t limit) : buffer(limit) {}

  boost::beast::flat_buffer buffer;
  std::optional<http::request_parser<http::string_body>> parser;
  bool has_head = false;
  error_code error;
};

RequestReader::RequestReader(size_t max_header_bytes, size_t max_body_bytes)
    : max_header_bytes_(max_header_bytes),
      max_body_bytes_(max_body_bytes),
      parser_(std::make_unique<Parser>(max_header_bytes + kMaxAheadBytes)) {
  next();
}

RequestReader::~RequestReader() = default;

size_t RequestReader::room() const {
  return parser_->buffer.max_size() - parser_->buffer.size();
}

void RequestReader::append(std::string_view bytes) {
  const auto target = parser_->buffer.prepare(bytes.size());
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(target.data()));
  parser_->buffer.commit(bytes.size());
}

void RequestReader::next() {
  auto& parser = parser_->parser.emplace();
  parser.header_limit(static_cast<uint32_t>(max_header_bytes_));
  // Until the head is there: then its length is compared here, and the parser counts chunks.
  parser.body_limit(boost::none);
  parser_->has_head = false;
  request_ = {};
}

bool RequestReader::is_fresh() const {
  return !parser_->parser->got_some() && parser_->buffer.size() == 0;
}

RequestReader::State RequestReader::refuse(int status, std::string message) {
  status_ = status;
  message_ = std::move(message);
  return State::failed;
}

RequestReader::State RequestReader::advance() {
  Parser& p = *parser_;
  // Empty lines before a request are to be ignored (RFC 9112 section 2.2).
  while (!p.parser->got_some() && p.buffer.size() > 0) {
    const char first = *static_cast<const char*>(p.buffer.data().data());
    if (first != '\r' && first != '\n') break;
    p.buffer.consume(1);
  }
  while (!p.parser->is_done()) {
    if (p.buffer.size() == 0) return State::more;
    const size_t used = p.parser->put(p.buffer.data(), p.error);
    p.buffer.consume(used);
    if (p.error == http::error::need_more) {
      if (room() > 0) return State::more;
      return refuse(p.has_head ? 400 : 431, "the request has a line that is too long");
    }
    if (p.error) break;
    if (!p.has_head && p.parser->is_header_done()) return take_head();
  }
  if (p.error == http::error::header_limit) {
    return refuse(431, fmt::format("the request's head is larger than the limit of {} bytes", max_header_bytes_));
  }
  if (p.error == http::error::body_limit || p.error == http::error::buffer_overflow) {
    return refuse(413,
                  fmt::format("the request's body is larger than the limit of {} bytes (--max-body)", max_body_bytes_));
  }
  if (p.error) return refuse(400, parse_fault());
  request_.body = std::move(p.parser->get().body());
  return State::whole;
}

std::string RequestReader::parse_fault() const {
  const error_code& error = parser_->error;
  if (error == http::error::bad_version) return "the request's first line is not that of HTTP/1.0 or HTTP/1.1";
  if (error == http::error::bad_content_length || error == http::error::multiple_content_length ||
      error == http::error::bad_transfer_encoding) {
    return "the request's Content-Length and Transfer-Encoding are malformed, or contradict each other";
  }
  return fmt::format("the request is malformed: {}", error.message());
}

// The head's fields, names in lower case. The parser keeps them too, but adds a chunked body's trailers to its own.
RequestReader::State RequestReader::take_head() {
  Parser& p = *parser_;
  p.has_head = true;
  const auto& message = p.parser->get();
  request_.method = std::string(message.method_string());
  for (const auto& field : message) {
    std::string name(field.name_string());
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    request_.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  try {
    Target target = parse_target({message.target().data(), message.target().size()});
    request_.path = std::move(target.path);
    request_.query = std::move(target.query);
  } catch (const Error& error) {
    return refuse(400, error.what());
  }
  return check_head();
}

RequestReader::State RequestReader::check_head() {
  Parser& p = *parser_;
  const auto count = [this](std::string_view name) {
    return std::count_if(request_.headers.begin(), request_.headers.end(),
                         [name](const auto& header) { return header.first == name; });
  };
  const auto hosts = count("host");
  if (hosts > 1) return refuse(400, "the request has more than one Host header");
  if (hosts == 0 && is_chunkable()) return refuse(400, "the request has no Host header, which HTTP/1.1 needs");
  if (hosts == 1 && !is_valid_host(*request_.header("host"))) return refuse(400, "the request's Host is malformed");
  if (count("transfer-encoding") > 0) {
    if (!is_chunkable()) return refuse(400, "the request has a Transfer-Encoding, which HTTP/1.0 does not know");
    if (!boost::beast::iequals(std::string(*request_.header("transfer-encoding")), "chunked")) {
      return refuse(501, "the request's Transfer-Encoding is not 'chunked', the only one that is known here");
    }
  }
  if (request_.path == "*" && request_.method != "OPTIONS") {
    return refuse(400, "the request's target is '*', which goes with OPTIONS alone");
  }
  if (count("expect") > 0 && !boost::beast::iequals(std::string(*request_.header("expect")), "100-continue")) {
    return refuse(417, "the request expects something else than 100-continue");
  }
  if (declared_body() > max_body_bytes_) {
    return refuse(413, fmt::format("the request's body has {} bytes, more than the limit of {} (--max-body)",
                                   declared_body(), max_body_bytes_));
  }
  p.parser->body_limit(max_body_bytes_);
  p.parser->eager(true);
  return State::head;
}

bool RequestReader::has_head() const {
  return parser_->has_head;
}

HttpRequest& RequestReader::request() {
  return request_;
}

bool RequestReader::keeps_alive() const {
  return parser_->parser->keep_alive();
}

bool RequestReader::is_chunkable() const {
  return parser_->parser->get().version() >= 11;
}

bool RequestReader::has_body() const {
  const auto& parser = *parser_->parser;
  return parser.chunked() || declared_body() > 0;
}

size_t RequestReader::declared_body() const {
  const auto length = parser_->parser->content_length();
  return length ? static_cast<size_t>(*length) : 0;
}

size_t RequestReader::received_body() const {
  return parser_->parser->get().body().size() + request_.body.size();  // where it is, once it is whole
}

bool RequestReader::expects_continue() const {
  return is_chunkable() && request_.header("expect").has_value();
}

}  // namespace minfer::server
