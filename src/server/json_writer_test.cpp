// JSON text: values as they are written, escapes, and text that is not UTF-8.
#include "server/json_writer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/test_support.hpp"
#include "server/api_error.hpp"

namespace minfer::server {
namespace {

TEST(JsonWriter, WritesEveryKindOfValueWithItsCommas) {
  JsonWriter json;
  json.begin_object().key("a").begin_array().integer(1).integer(-2).begin_object().end_object().begin_array();
  json.end_array().end_array().key("b").boolean(true).key("c").null().key("d").number(0.1).key("e").number(0.1F);
  json.key("f").string("x").key("g").raw("[7]").key("h").boolean(false).end_object();
  EXPECT_EQ(json.take(), R"({"a":[1,-2,{},[]],"b":true,"c":null,"d":0.1,"e":0.1,"f":"x","g":[7],"h":false})");
}

TEST(JsonWriter, EscapesWhatJsonDemands) {
  JsonWriter json;
  json.string(std::string("q\" b\\ n\n r\r t\t z") + '\0' + " u\x1f d\x7f é😀");
  EXPECT_EQ(json.take(), "\"q\\\" b\\\\ n\\n r\\r t\\t z\\u0000 u\\u001f d\x7f é😀\"");
}

TEST(JsonWriter, ReplacesMalformedParts) {
  JsonWriter json;
  json.string("a\xFF z\xC3");
  EXPECT_EQ(json.take(), "\"a\uFFFD z\uFFFD\"");
}

TEST(JsonWriter, WritesNoNumbersThatJsonLacks) {
  JsonWriter json;
  json.begin_array().number(std::nan("")).number(std::numeric_limits<float>::infinity()).number(1e300).end_array();
  EXPECT_EQ(json.take(), "[null,null,1e+300]");
}

TEST(JsonWriter, WritesWhatWasRead) {
  const std::string text = R"({"z":[1,2.5,"t",null,true,{"a":-9223372036854775808}],"a":"\n"})";
  JsonWriter json;
  json.value(chat::value_from_json(text));
  EXPECT_EQ(json.take(), text);
}

TEST(ApiError, HasOpenAisShape) {
  EXPECT_EQ(error_body({.status = 400, .message = "no \"x\"", .param = "a[0].b", .code = "c"}),
            R"({"error":{"message":"no \"x\"","type":"invalid_request_error","param":"a[0].b","code":"c"}})");
  EXPECT_EQ(error_body({.message = "m"}),
            R"({"error":{"message":"m","type":"invalid_request_error","param":null,"code":null}})");
}

TEST(ApiError, StatusFollowsTheCode) {
  EXPECT_EQ(api_error({ErrorCode::invalid_input, "x"}).status, 400);
  EXPECT_EQ(api_error({ErrorCode::unsupported, "x"}).status, 400);
  EXPECT_EQ(api_error({ErrorCode::device, "x"}).status, 500);
  EXPECT_EQ(api_error({ErrorCode::out_of_memory, "x"}).status, 500);
  const HttpResponse busy = error_response(api_error({ErrorCode::busy, "the queue is full"}));
  EXPECT_EQ(busy.status, 429);
  EXPECT_EQ(busy.headers, (Headers{{"Retry-After", "1"}}));
  EXPECT_EQ(busy.body,
            R"({"error":{"message":"the queue is full","type":"rate_limit_error","param":null,"code":"queue_full"}})");
  const HttpResponse stopping = error_response(api_error({ErrorCode::cancelled, "x"}));
  EXPECT_EQ(stopping.status, 503);
}

TEST(ApiError, WhatIsNotAnErrorOfMinferIsInternal) {
  const auto thrown = [](auto exception) {
    try {
      throw exception;
    } catch (...) {
      return current_api_error();
    }
  };
  EXPECT_EQ(thrown(std::runtime_error("lost")).message, "internal error: lost");
  EXPECT_EQ(thrown(std::bad_alloc()).code, "out_of_memory");
  EXPECT_EQ(thrown(ApiFailure({.status = 404, .message = "m"})).status, 404);
}

}  // namespace
}  // namespace minfer::server
