// Requests from bytes in any cut. What whole connections make of them is tested by tests/server/http_test.py.
#include "server/http/request_reader.hpp"

#include <gtest/gtest.h>

namespace minfer::server {
namespace {

using State = RequestReader::State;
constexpr size_t kHeaderBytes = 1000;
constexpr size_t kBodyBytes = 100;

// The state after `bytes`, given `step` at a time; heads are passed over.
State feed(RequestReader& reader, std::string_view bytes, size_t step) {
  State state = State::more;
  while (!bytes.empty() && state == State::more) {
    const size_t count = std::min(step, bytes.size());
    reader.append(bytes.substr(0, count));
    bytes.remove_prefix(count);
    do state = reader.advance();
    while (state == State::head);
  }
  EXPECT_TRUE(bytes.empty() || state != State::more);
  return state;
}

TEST(RequestReader, AnyCutGivesTheSameRequest) {
  const std::string text =
      "\r\nPOST /a%20b?c=d HTTP/1.1\r\nHOST: x\r\nX-One:  1 \r\nx-one: 2\r\nTransfer-Encoding: Chunked\r\n\r\n"
      "3\r\nabc\r\n4;x=\"y\"\r\ndefg\r\n0\r\nTrailer: no\r\n\r\n";
  for (size_t step = 1; step <= text.size(); ++step) {
    RequestReader reader(kHeaderBytes, kBodyBytes);
    ASSERT_EQ(feed(reader, text, step), State::whole) << step << ": " << reader.message();
    const HttpRequest& request = reader.request();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/a b");
    EXPECT_EQ(request.query, "c=d");
    EXPECT_EQ(request.body, "abcdefg");
    EXPECT_EQ(request.header("x-one"), "1");
    EXPECT_EQ(request.headers.size(), 4U);
    EXPECT_TRUE(reader.keeps_alive());
    EXPECT_TRUE(reader.is_chunkable());
  }
}

TEST(RequestReader, OneAfterAnother) {
  RequestReader reader(kHeaderBytes, kBodyBytes);
  reader.append(
      "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nPOST /2 HTTP/1.0\r\nContent-Length: 2\r\n\r\nab\r\n"
      "GET /3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nGET");
  const auto next = [&reader] {
    EXPECT_EQ(reader.advance(), State::head);
    EXPECT_EQ(reader.advance(), State::whole);
    return reader.request().path + " " + reader.request().body + (reader.keeps_alive() ? "+" : "-");
  };
  EXPECT_EQ(next(), "/1 +");
  reader.next();
  EXPECT_FALSE(reader.is_fresh());
  EXPECT_EQ(next(), "/2 ab-");
  EXPECT_FALSE(reader.is_chunkable());
  reader.next();
  EXPECT_EQ(next(), "/3 -");
  reader.next();
  EXPECT_EQ(reader.advance(), State::more);
  EXPECT_FALSE(reader.is_fresh());
}

TEST(RequestReader, TheHeadComesBeforeTheBody) {
  RequestReader reader(kHeaderBytes, kBodyBytes);
  EXPECT_TRUE(reader.is_fresh());
  reader.append("POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-Continue\r\n\r\n");
  EXPECT_EQ(reader.advance(), State::head);
  EXPECT_TRUE(reader.has_body());
  EXPECT_TRUE(reader.expects_continue());
  EXPECT_EQ(reader.declared_body(), 5U);
  EXPECT_EQ(reader.advance(), State::more);
  reader.append("abc");
  EXPECT_EQ(reader.advance(), State::more);
  EXPECT_EQ(reader.received_body(), 3U);
  reader.append("de");
  EXPECT_EQ(reader.advance(), State::whole);
  EXPECT_EQ(reader.request().body, "abcde");
}

TEST(RequestReader, Limits) {
  const auto status = [](const std::string& text, size_t step) {
    RequestReader reader(kHeaderBytes, kBodyBytes);
    return feed(reader, text, step) == State::failed ? reader.status() : 0;
  };
  const std::string head = "POST /x HTTP/1.1\r\nHost: x\r\n";
  for (const size_t step : {size_t{1}, size_t{7}, size_t{5000}}) {
    EXPECT_EQ(status(head + "X: " + std::string(kHeaderBytes, 'a') + "\r\n\r\n", step), 431);
    EXPECT_EQ(status(std::string(kHeaderBytes + 1, 'A'), step), 431);
    EXPECT_EQ(status(head + "Content-Length: 101\r\n\r\n", step), 413);
    EXPECT_EQ(status(head + "Content-Length: 100\r\n\r\n" + std::string(kBodyBytes, 'a'), step), 0);
    EXPECT_EQ(status(head + "Transfer-Encoding: chunked\r\n\r\n65\r\n", step), 413);
    EXPECT_EQ(status(head + "Transfer-Encoding: chunked\r\n\r\n33\r\n" + std::string(51, 'a') + "\r\n33\r\n", step),
              413);
    EXPECT_EQ(status("GET /x HTTP/1.1\r\n\r\n", step), 400);
    EXPECT_EQ(status(head + "Host: y\r\n\r\n", step), 400);
    EXPECT_EQ(status(head + "Transfer-Encoding: gzip\r\n\r\n", step), 501);
    EXPECT_EQ(status(head + "Expect: more\r\n\r\n", step), 417);
    EXPECT_EQ(status("POST /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", step), 400);
  }
}

}  // namespace
}  // namespace minfer::server
