// What is a path, what is a host, and what is refused.
#include "server/http/target.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace minfer::server {
namespace {

TEST(Target, PathAndQuery) {
  const auto path = [](std::string_view target) { return parse_target(target).path; };
  const auto query = [](std::string_view target) { return parse_target(target).query; };
  EXPECT_EQ(path("/v1/models"), "/v1/models");
  EXPECT_EQ(query("/v1/models"), "");
  EXPECT_EQ(path("/a?b=c?d&e"), "/a");
  EXPECT_EQ(query("/a?b=c?d&e"), "b=c?d&e");
  EXPECT_EQ(query("/a?%zz"), "%zz");  // as sent
  EXPECT_EQ(path("/%41%2f%2F%c3%a4"), "/A//\xC3\xA4");
  EXPECT_EQ(path("HTTP://Host:80/x?y"), "/x");
  EXPECT_EQ(query("https://[::1]:80?y"), "y");
  EXPECT_EQ(path("https://host"), "/");
  EXPECT_EQ(path("*"), "*");
}

TEST(Target, Refusals) {
  for (const std::string_view target :
       {"x",     "/ x",     "/x#y",      "/x\\y",       "/%",          "/%4",        "/%4g",  "/%g4",
        "/%00",  "/%1f",    "/%7F",      "/%ff",        "/%c3(",       "/%ed%a0%80", "/\x80", "/\x7F",
        "/a\rb", "http://", "http:///x", "http://a b/", "http://a@b/", "ftp://a/",   "**"}) {
    EXPECT_THROW(parse_target(target), Error) << target;
  }
  EXPECT_EQ(parse_target("?x").path, "/");
}

TEST(Target, Hosts) {
  for (const std::string_view host : {"", "localhost", "a.b-c_d:80", "[::1]:8080", "[fe80::1%25eth0]", "127.0.0.1"}) {
    EXPECT_TRUE(is_valid_host(host)) << host;
  }
  for (const std::string_view host : {"a b", "a/b", "a@b", "a,b", "a\tb", "\xC3\xA4", "a?b", "a#b"}) {
    EXPECT_FALSE(is_valid_host(host)) << host;
  }
}

}  // namespace
}  // namespace minfer::server
