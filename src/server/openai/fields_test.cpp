// The reader of request fields: values, and what is said of wrong ones.
#include "server/openai/fields.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/openai/test_support.hpp"

namespace minfer::server::openai {
namespace {

using test::failure_of;
using ::testing::HasSubstr;

TEST(Fields, ReadsEachType) {
  const chat::Value body = parse_body(R"({"b": true, "i": 5, "f": 5.0, "x": 2.5, "t": "é", "l": [1], "o": {"y": 1},
                                          "n": null, "c": "two"})");
  Fields fields(body, "", true);
  EXPECT_EQ(fields.boolean("b"), true);
  EXPECT_EQ(fields.integer("i", 0, 9), 5);
  EXPECT_EQ(fields.integer("f", 0, 9), 5);
  EXPECT_EQ(fields.number("x", 0, 3), 2.5);
  EXPECT_EQ(fields.number("i", 0, 9), 5.0);
  EXPECT_EQ(fields.text("t"), "é");
  EXPECT_EQ(fields.list("l")->size(), 1U);
  EXPECT_EQ(fields.object("o")->integer("y", 0, 1), 1);
  EXPECT_EQ(fields.choice("c", {"one", "two"}), 1U);
  EXPECT_EQ(fields.text("n"), std::nullopt);
  EXPECT_EQ(fields.text("absent"), std::nullopt);
  fields.finish();
}

TEST(Fields, NamesTheFieldWhatWasFoundAndExpected) {
  const chat::Value body =
      parse_body(R"({"t": 3, "i": 2.5, "big": 11, "b": "yes", "l": {}, "c": "three", "o": [1, 2]})");
  Fields fields(body, "messages[2]", false);
  const auto failure = [&](auto read) { return failure_of([&] { read(); }); };
  EXPECT_EQ(failure([&] { fields.text("t"); }), "400 messages[2].t -: messages[2].t is the number 3; expected a text");
  EXPECT_EQ(failure([&] { fields.integer("i", 0, 10); }),
            "400 messages[2].i -: messages[2].i is the number 2.5; expected an integer of 0 to 10");
  EXPECT_EQ(failure([&] { fields.integer("big", 0, 10); }),
            "400 messages[2].big -: messages[2].big is the number 11; expected an integer of 0 to 10");
  EXPECT_EQ(failure([&] { fields.number("b", 0, 1); }),
            "400 messages[2].b -: messages[2].b is the text 'yes'; expected a number of 0 to 1");
  EXPECT_EQ(failure([&] { fields.boolean("b"); }),
            "400 messages[2].b -: messages[2].b is the text 'yes'; expected true or false");
  EXPECT_EQ(failure([&] { fields.list("l"); }), "400 messages[2].l -: messages[2].l is an object; expected a list");
  EXPECT_EQ(failure([&] { fields.object("o"); }),
            "400 messages[2].o -: messages[2].o is a list of 2 items; expected an object");
  EXPECT_EQ(failure([&] { fields.choice("c", {"one", "two"}); }),
            "400 messages[2].c -: messages[2].c is the text 'three'; expected one of one, two");
  EXPECT_EQ(failure([&] { fields.require("r", "a text"); }),
            "400 messages[2].r -: messages[2].r is missing; expected a text");
}

TEST(Fields, UnknownOnesAreRefusedOnlyWhereStrict) {
  const chat::Value body = parse_body(R"({"known": 1, "other": 2, "harmless": 3})");
  for (const bool strict : {false, true}) {
    Fields fields(body, "", strict);
    fields.integer("known", 0, 1);
    fields.ignore({"harmless"});
    EXPECT_THAT(failure_of([&] { fields.finish(); }),
                strict ? HasSubstr("400 other unknown_parameter: other is not a field") : HasSubstr("no error"));
  }
}

TEST(Fields, RefusesByName) {
  const chat::Value body = parse_body(R"({"suffix": "x", "none": null})");
  Fields fields(body, "", false);
  fields.refuse("none", "w");
  EXPECT_EQ(failure_of([&] { fields.refuse("suffix", "leave it out"); }),
            "400 suffix unsupported_parameter: suffix is not supported by this server; leave it out");
}

TEST(Fields, TheBodyIsAnObject) {
  EXPECT_EQ(failure_of([] { parse_body(R"({"a": [{"n": 99999999999999999999}]})"); }),
            "400 a[0].n -: a[0].n: JSON: the integer 99999999999999999999 does not fit in 64 bits with a sign");
  EXPECT_EQ(failure_of([] { parse_body(R"({"seed": 18446744073709551615})"); }),
            "400 seed -: seed: JSON: the integer 18446744073709551615 does not fit in 64 bits with a sign");
  EXPECT_THAT(failure_of([] { parse_body(R"({"temperature": 1e400})"); }),
              HasSubstr("400 temperature -: temperature: JSON"));
  EXPECT_EQ(failure_of([] { parse_body("[1]"); }), "400 - -: the request is a list of 1 items; expected a JSON object");
  EXPECT_THAT(failure_of([] { parse_body("{\"a\": }"); }), HasSubstr("the request's body: malformed JSON at byte 7"));
  EXPECT_THAT(failure_of([] { parse_body("{\"a\": \"\xFF\"}"); }), HasSubstr("malformed JSON"));
  EXPECT_THAT(failure_of([] { parse_body(std::string(100000, '[')); }), HasSubstr("nests more than 200"));
}

}  // namespace
}  // namespace minfer::server::openai
