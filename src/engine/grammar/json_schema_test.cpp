// JSON Schema, keyword by keyword: which texts the nodes of a schema match, by the naive matcher, and what is refused.
// tests/schema checks the same against Python's jsonschema on generated schemas.
#include "engine/grammar/json_schema.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "base/error.hpp"
#include "engine/grammar/naive_match_testing.hpp"

namespace minfer::engine::grammar {
namespace {

using testing::HasSubstr;

Ast ast_of(std::string_view schema, const SchemaOptions& options = {}) {
  AstBuilder builder;
  const RuleId root = builder.declare("root");
  builder.define(root, add_json_schema(builder, chat::value_from_json(schema), options));
  return std::move(builder).finish(root);
}

void expect(std::string_view schema, const std::vector<std::string>& yes, const std::vector<std::string>& no,
            const SchemaOptions& options = {}) {
  const Ast ast = ast_of(schema, options);
  for (const std::string& text : yes) {
    EXPECT_TRUE(naive_match(ast, text)) << schema << " should allow " << text;
  }
  for (const std::string& text : no) {
    EXPECT_FALSE(naive_match(ast, text)) << schema << " should not allow " << text;
  }
}

std::string error_of(std::string_view schema, ErrorCode code) {
  const std::clock_t start = std::clock();  // of this process: other programs may be running
  try {
    ast_of(schema);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_LT(std::clock() - start, CLOCKS_PER_SEC) << error.what();
    return error.what();
  }
  return "no error";
}
std::string unsupported(std::string_view schema) {
  return error_of(schema, ErrorCode::unsupported);
}
std::string invalid(std::string_view schema) {
  return error_of(schema, ErrorCode::invalid_input);
}

TEST(JsonSchema, Types) {
  expect(R"({"type":"null"})", {"null"}, {"", "nul", "0", "nullnull"});
  expect(R"({"type":"boolean"})", {"true", "false"}, {"True", "1"});
  expect(R"({"type":"integer"})", {"0", "-1", "12", "100000000000000000000"},
         {"01", "-0", "1.0", "1e2", "", "-", "+1"});
  expect(R"({"type":"number"})", {"0", "-0", "1.50", "-12.25", "1e5", "1E+22", "2.5e-300", "1e277"},
         {"01", "1.", ".5", "1e", "1e999", "NaN", "0x1", "--1"});
  expect(R"({"type":"string"})",
         {R"("")", R"("a b")", "\"\xC3\xA9\xF0\x9F\x98\x80\"", R"("\"\\\/\b\f\n\r\t")", R"("\u00e9\ud83d\uDE00")",
          "\"\x7F\""},
         {R"(")", R"("a)", "\"\n\"", R"("\x")", R"("\ud83d")", R"("\ude00")", R"("\u12")", R"("a"b")", "\"\xC3\""});
  expect(R"({"type":["integer","null"]})", {"1", "null"}, {"\"a\"", "1.5"});
  expect(R"({"type":"string","nullable":true})", {"null", "\"\""}, {"1"});
  expect("true", {"1", R"({"a":[1,"b",{}]})", "[]", "null"}, {"", "{", "[1,]", R"({"a"})"});
  expect("{}", {"[[{}]]"}, {"[[{}]"});
  EXPECT_THAT(invalid("false"), HasSubstr("no document is valid"));
  EXPECT_THAT(invalid("[]"), HasSubstr("# is no schema"));
  EXPECT_THAT(invalid(R"({"properties":{"a/b":3}})"), HasSubstr("#/properties/a~1b is no schema"));
  EXPECT_THAT(invalid(R"({"type":"text"})"), HasSubstr("#/type: one of null, boolean"));
}

TEST(JsonSchema, ListedValues) {
  expect(R"({"enum":["red","reddish","re","blue",1,1.5,2.0,null,true,{"a":[1]},"\"\\\n\u0001é"]})",
         {R"("red")", R"("reddish")", R"("re")", R"("blue")", "1", "1.5", "2.0", "null", "true", R"({"a":[1]})",
          R"({ "a": [ 1 ] })", "\"\\\"\\\\\\n\\u0001\xC3\xA9\""},
         {R"("r")", R"("redd")", "2", "false", "1.0", R"({"a":[2]})", R"({"a":[1],"b":1})", "\"\""});
  expect(R"({"const":{"b":{},"a":[]}})", {R"({"b":{},"a":[]})"}, {R"({"a":[],"b":{}})", "{}"});
  expect(R"({"type":"string","enum":["a",1,"bcd"],"maxLength":2})", {"\"a\""}, {"1", "\"bcd\""});
  expect(R"({"enum":[1,2,3,true],"const":1})", {"1"}, {"true", "2"});
  expect(R"({"enum":[0,5,10,2.5],"minimum":1,"multipleOf":5})", {"5", "10"}, {"0", "2.5"});
  expect(
      R"({"enum":[[1],[1,2],["a"],{"k":"abc"},{"k":1}],"items":{"type":"integer"},"minItems":2,"properties":{"k":{"pattern":"^b"}}})",
      {"[1,2]", R"({"k":1})"}, {"[1]", "[\"a\"]", R"({"k":"abc"})"});
  EXPECT_THAT(invalid(R"({"enum":[1,2],"type":"string"})"), HasSubstr("no document is valid"));
  EXPECT_THAT(invalid(R"({"enum":[]})"), HasSubstr("no document is valid"));
  EXPECT_THAT(invalid(R"({"enum":"a"})"), HasSubstr("#/enum: a list of values"));
}

TEST(JsonSchema, Numbers) {
  expect(R"({"type":"integer","minimum":-3,"exclusiveMaximum":120})", {"-3", "0", "99", "119"},
         {"-4", "120", "1000", "-10", "1.0"});
  expect(R"({"type":"integer","minimum":0.5,"maximum":2.5})", {"1", "2"}, {"0", "3"});
  expect(R"({"type":"integer","multipleOf":7,"minimum":10})", {"14", "21", "700"}, {"7", "15", "0"});
  expect(R"({"type":"integer","multipleOf":4,"allOf":[{"multipleOf":6}]})", {"0", "12", "-24"}, {"4", "6", "8"});
  expect(R"({"type":"number","minimum":0,"maximum":1})", {"0", "1", "0.5", "1.0", "-0.0"},
         {"1.01", "-0.1", "2", "5e-1"});
  expect(R"({"type":"number","exclusiveMinimum":0})", {"0.001", "17"}, {"0", "0.0", "-1"});
  expect(R"({"type":"number","multipleOf":10})", {"0", "-20", "30"}, {"5", "10.5", "10.0"});
  EXPECT_THAT(invalid(R"({"type":"integer","minimum":5,"maximum":4})"), HasSubstr("no document is valid"));
  EXPECT_THAT(unsupported(R"({"properties":{"x":{"type":"number","multipleOf":0.01}}})"),
              HasSubstr("#/properties/x/multipleOf: a fraction"));
  EXPECT_THAT(unsupported(R"({"type":"integer","multipleOf":99991})"), HasSubstr("#/multipleOf: 99991"));
  EXPECT_THAT(invalid(R"({"minimum":"1"})"), HasSubstr("#/minimum: a number"));
  EXPECT_THAT(invalid(R"({"minimum":1,"exclusiveMinimum":true})"), HasSubstr("#/exclusiveMinimum: a number"));
}

TEST(JsonSchema, Strings) {
  expect(R"({"type":"string","minLength":2,"maxLength":3})",
         {R"("ab")", "\"\xF0\x9F\x98\x80\xC3\xA9\"", R"("\ud83d\ude00\n")", R"("abc")"},
         {R"("a")", R"("abcd")", "\"\xF0\x9F\x98\x80\"", R"("\ud83d\ude00")"});
  expect(R"({"type":"string","maxLength":2000000})", {R"("")", R"("abc")"}, {});
  expect(R"({"type":"string","pattern":"^[a-c]{2,3}$"})", {R"("ab")", R"("ccc")"},
         {R"("a")", R"("abcc")", R"("ab\n")", R"("\u0061b")"});
  expect(R"({"type":"string","pattern":"[\"\\\\\n]x"})", {R"("\"x")", R"("a\\xb")", R"("\nx")"},
         {R"("x")", "\"\nx\"", R"("\u000ax")"});
  expect(R"({"type":"string","pattern":"^[^a]$"})", {R"("b")", R"("\"")", R"("\u0001")", R"("\u001F")", "\"\xC3\xA9\""},
         {R"("a")", R"("")", R"("\u0061")"});
  expect(R"({"type":"string","pattern":"^a+$","minLength":3,"maxLength":5})", {R"("aaa")", R"("aaaaa")"},
         {R"("aa")", R"("aaaaaa")", R"("aab")"});
  expect(R"({"type":"string","pattern":"b","maxLength":2})", {R"("b")", R"("ab")", R"("\"b")"}, {R"("a")", R"("aab")"});
  expect(R"({"type":"string","pattern":"^(ab|c)+$","minLength":4,"maxLength":4})", {R"("abab")", R"("ccab")"},
         {R"("abc")", R"("ababc")"});
  expect(R"({"type":"string","pattern":"^x[0-9]{1,5000}$"})", {R"("x1")", R"("x123456789012")"}, {R"("x")"});
  expect(R"({"type":"string","allOf":[{"pattern":"a"},{"pattern":"b"}]})", {R"("ab")", R"("bxa")"},
         {R"("a")", R"("b")"});
  EXPECT_THAT(invalid(R"({"type":"string","minLength":3,"maxLength":2})"), HasSubstr("no document is valid"));
  EXPECT_THAT(invalid(R"({"type":"string","pattern":"^a$","minLength":2})"), HasSubstr("no document is valid"));
  EXPECT_THAT(invalid(R"({"type":"string","minLength":2000000})"),
              HasSubstr("#/minLength: 2000000; the limit is 1048576"));
  EXPECT_THAT(invalid(R"({"minLength":-1})"), HasSubstr("#/minLength: a whole number"));
  EXPECT_THAT(unsupported(R"j({"type":"string","pattern":"(?=a)"})j"),
              HasSubstr("#/pattern: the regular expression '(?=a)' has a lookahead"));
  EXPECT_THAT(unsupported(R"({"type":"string","pattern":"a[ab]{20}$","maxLength":100})"),
              HasSubstr("more than 4096 states"));
}

TEST(JsonSchema, Formats) {
  expect(R"({"type":"string","format":"date"})",
         {R"("2024-02-29")", R"("2000-02-29")", R"("0001-12-31")", R"("1999-04-30")"},
         {R"("2023-02-29")", R"("1900-02-29")", R"("0000-01-01")", R"("2024-04-31")", R"("2024-13-01")",
          R"("2024-00-10")", R"("24-01-01")"});
  expect(R"({"type":"string","format":"time"})", {R"("23:59:59Z")", R"("00:00:00.123+05:30")"},
         {R"("24:00:00Z")", R"("12:00:00")", R"("12:60:00Z")"});
  expect(R"({"type":"string","format":"date-time"})", {R"("2024-02-29T12:00:00Z")", R"("2024-01-31T12:00:00.5-23:59")"},
         {R"("2024-02-30T12:00:00Z")", R"("2024-01-31 12:00:00Z")"});
  expect(R"({"type":"string","format":"uuid"})", {R"("123e4567-e89b-12d3-A456-426614174000")"},
         {R"("123e4567e89b12d3a456426614174000")"});
  expect(R"({"type":"string","format":"email"})", {R"("a.b+c@example.co-op.org")", R"("a@b")"},
         {R"("a")", R"("a..b@c")", R"("a@-b")", R"("a@b-")", R"("@b")"});
  expect(R"({"type":"string","format":"ipv4"})", {R"("0.10.255.199")"},
         {R"("256.1.1.1")", R"("1.1.1")", R"("01.1.1.1")"});
  expect(R"({"type":"string","format":"uri"})",
         {R"("https://user:pw@example.com:80/a/b;c?d=e#f%20g")", R"("mailto:a@b.c")", R"("urn:isbn:123")",
          R"("http://a")"},
         {R"("//a")", R"("a b:c")", R"("http://a/%2")", R"("http:")", R"("1http://a")"});
  expect(R"({"type":"string","format":"email","maxLength":5})", {R"("a@b.c")"}, {R"("ab@b.c")"});
  EXPECT_THAT(unsupported(R"({"type":"string","format":"hostname"})"),
              HasSubstr("#/format: the format 'hostname' is not supported"));
}

TEST(JsonSchema, Arrays) {
  expect(R"({"type":"array","items":{"type":"integer"}})", {"[]", "[1]", "[1,2,3]", "[1, 2]", "[\n  1,\n  2\n]"},
         {"[,]", "[1,]", "[\"a\"]", "[1 ,2]", "[1 2]"});
  expect(R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":3})", {"[1,2]", "[1,2,3]"},
         {"[]", "[1]", "[1,2,3,4]"});
  expect(R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":false})",
         {"[]", "[1]", "[1,\"a\"]"}, {"[\"a\"]", "[1,\"a\",2]"});
  expect(
      R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":{"type":"null"},"minItems":2,"maxItems":3})",
      {"[1,\"a\"]", "[1,\"a\",null]"}, {"[1]", "[1,\"a\",null,null]", "[1,\"a\",1]"});
  expect(R"({"type":"array","prefixItems":[true,false,true]})", {"[]", "[1]"}, {"[1,2]"});
  expect(R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"});
  expect(R"({"type":"array","items":false})", {"[]"}, {"[1]"});
  expect(R"({"type":"array","minItems":2})", {"[1,{}]"}, {"[1]"});
  expect(R"({"type":"array","uniqueItems":false})", {"[1,1]"}, {});
  EXPECT_THAT(invalid(R"({"type":"array","items":false,"minItems":1})"), HasSubstr("no document is valid"));
  EXPECT_THAT(invalid(R"({"items":[{}]})"), HasSubstr("#/items: one schema"));
  EXPECT_THAT(invalid(R"({"type":"array","minItems":5000000})"), HasSubstr("#/minItems: 5000000"));
  EXPECT_THAT(unsupported(R"({"uniqueItems":true})"),
              HasSubstr("#/uniqueItems: the keyword 'uniqueItems' is not supported"));
}

TEST(JsonSchema, ObjectsInOrder) {
  const std::string_view all =
      R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"integer"}},)";
  expect(
      std::string(all) + R"("required":["a","b","c"],"additionalProperties":false})",
      {R"({"a":1,"b":2,"c":3})", R"({"a": 1, "b": 2, "c": 3})", "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}"},
      {R"({"a":1,"b":2})", R"({"b":2,"a":1,"c":3})", R"({"a":1,"b":2,"c":3,"d":4})", "{}", R"({"a" :1,"b":2,"c":3})"});
  expect(std::string(all) + R"("required":["b"],"additionalProperties":false})",
         {R"({"b":2})", R"({"a":1,"b":2})", R"({"b":2,"c":3})", R"({"a":1,"b":2,"c":3})"},
         {"{}", R"({"a":1})", R"({"a":1,"c":3})", R"({,"b":2})", R"({"b":2,})", R"({"b":2,"b":2})"});
  expect(std::string(all) + R"("additionalProperties":false})",
         {"{}", "{ }", R"({"a":1})", R"({"b":2})", R"({"c":3})", R"({"a":1,"c":3})", R"({"a":1,"b":2,"c":3})"},
         {R"({"c":3,"a":1})", R"({"d":1})", "{,}", R"({"a":1"b":2})"});
  expect(std::string(all) + R"("required":["c"]})",
         {R"({"c":3})", R"({"c":3,"d":[]})", R"({"a":1,"c":3,"ab":0,"":1,"\"":2})"},
         {R"({"d":1,"c":3})", R"({"c":3,"a":1})", R"({"c":3,"a":"x"})", R"({"c":3,"\u0061":"x"})", R"({"d":1})"});
  expect(std::string(all) + R"("additionalProperties":{"type":"null"}})",
         {R"({"x":null})", R"({"a":1,"x":null,"y":null})"}, {R"({"x":1})", R"({"a":null})"});
  expect(R"({"type":"object","required":["x"]})", {R"({"x":1})", R"({"x":1,"y":2})"}, {"{}", R"({"y":1})"});
  expect(R"({"type":"object","properties":{"a":false,"b":true},"additionalProperties":false})", {R"({"b":1})", "{}"},
         {R"({"a":1})"});
  expect(R"({"properties":{"a":{"type":"null"}}})", {"1", R"({"a":null})", "[]"}, {R"({"a":1})"});
  expect(R"({"properties":{"a":{"type":"null"}}})", {R"({"a":null})", "{}"}, {"1", R"({"b":1})"},
         {.most_whitespace = 0, .open = false});
  expect(R"({"type":"object"})", {"{}", R"({"a":{"b":[]}})"}, {"[]"});
  EXPECT_THAT(invalid(R"({"type":"object","properties":{"a":false},"required":["a"]})"),
              HasSubstr("no document is valid"));
  EXPECT_THAT(invalid(R"({"required":"a"})"), HasSubstr("#/required: a list of names"));
}

TEST(JsonSchema, NumbersOfProperties) {
  expect(
      R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"additionalProperties":false,"minProperties":2})",
      {R"({"a":1,"b":2})", R"({"b":2,"c":3})", R"({"a":1,"b":2,"c":3})"}, {"{}", R"({"b":2})"});
  expect(
      R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"required":["b"],"maxProperties":2,"additionalProperties":{"const":0}})",
      {R"({"a":1,"b":2})", R"({"b":2})", R"({"b":2,"x":0})"},
      {R"({"a":1,"b":2,"c":3})", R"({"a":1,"b":2,"x":0})", R"({"a":1})"});
  expect(R"({"type":"object","additionalProperties":{"const":0},"minProperties":1,"maxProperties":2})",
         {R"({"x":0})", R"({"x":0,"y":0})"}, {"{}", R"({"x":0,"y":0,"z":0})"});
  expect(R"({"type":"object","maxProperties":0})", {"{}"}, {R"({"x":0})"});
  EXPECT_THAT(unsupported(R"({"type":"object","minProperties":2})"),
              HasSubstr("minProperties 2 needs properties that it does not list"));
  EXPECT_THAT(invalid(R"({"type":"object","properties":{"a":{}},"additionalProperties":false,"minProperties":2})"),
              HasSubstr("no document is valid"));
}

TEST(JsonSchema, PatternsOfNames) {
  expect(
      R"({"type":"object","patternProperties":{"^n_":{"type":"integer"},"_s$":{"type":"string"}},"additionalProperties":false})",
      {"{}", R"({"n_a":1,"b_s":"x"})"}, {R"({"n_a":"x"})", R"({"other":1})", R"({"n_s":1})", R"({"n_s":"x"})"});
  expect(R"({"type":"object","properties":{"n_1":{"minimum":5}},"patternProperties":{"^n_":{"type":"integer"}}})",
         {R"({"n_1":5})", R"({"n_1":6,"n_2":0,"x":"any"})"},
         {R"({"n_1":4})", R"({"n_1":"x"})", R"({"n_2":0,"n_1":3})"});
  EXPECT_THAT(unsupported(R"({"patternProperties":{"a":{},"b":{},"c":{},"d":{},"e":{}}})"),
              HasSubstr("5 patternProperties"));
}

TEST(JsonSchema, Combinations) {
  expect(R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1},{"const":null}]})", {"1", "\"a\"", "null"},
         {"1.5", "\"ab\"", "true"});
  expect(
      R"({"type":"object","properties":{"k":{"type":"string"}},"required":["k"],"anyOf":[{"properties":{"k":{"const":"a"}}},{"properties":{"k":{"const":"b"}}}],"additionalProperties":false})",
      {R"({"k":"a"})", R"({"k":"b"})"}, {R"({"k":"c"})", R"({"k":1})"});
  expect(
      R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"b":{"type":"string"},"a":{"minimum":3}}}]})",
      {R"({"a":3,"b":"x"})", R"({"a":4})", R"({"a":4,"c":[]})"}, {R"({"a":2})", R"({"b":"x"})", R"({"a":3,"b":1})"});
  expect(R"({"allOf":[{"properties":{"a":{}},"additionalProperties":false},{"properties":{"b":{}}}],"type":"object"})",
         {"{}", R"({"a":1})"}, {R"({"b":1})"});
  expect(R"({"oneOf":[{"type":"integer"},{"type":"string"}]})", {"1", "\"a\""}, {"null"});
  expect(
      R"({"oneOf":[{"type":"object","properties":{"t":{"const":"a"},"x":{"type":"integer"}},"required":["t"]},{"type":"object","properties":{"t":{"enum":["b","c"]}},"required":["t"]}]})",
      {R"({"t":"a","x":1})", R"({"t":"b","x":"any"})"}, {R"({"t":"d"})", R"({"t":"a","x":"any"})"});
  expect(
      R"({"oneOf":[{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false},{"type":"object","properties":{"b":{}},"required":["b"],"additionalProperties":false}]})",
      {R"({"a":1})", R"({"b":1})"}, {"{}", R"({"a":1,"b":1})"});
  expect(R"({"oneOf":[{"maximum":1},{"minimum":2}],"type":"integer"})", {"1", "2"}, {});
  expect(R"({"anyOf":[false,{"type":"null"}]})", {"null"}, {"1"});
  EXPECT_THAT(unsupported(R"({"oneOf":[{"type":"number"},{"type":"integer"}]})"),
              HasSubstr("#/oneOf: no document may be of two branches, which can't be shown for branches 0 and 1"));
  EXPECT_THAT(
      unsupported(R"({"oneOf":[{"properties":{"a":{"const":1}}},{"properties":{"a":{"const":2}}}],"type":"object"})"),
      HasSubstr("use anyOf"));
  EXPECT_THAT(invalid(R"({"anyOf":[]})"), HasSubstr("#/anyOf: a list of at least one schema"));
  EXPECT_THAT(invalid(R"({"allOf":[{"type":"string"},{"type":"integer"}]})"), HasSubstr("no document is valid"));
}

TEST(JsonSchema, References) {
  expect(
      R"({"$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}},"required":["v","next"],"additionalProperties":false}},"$ref":"#/$defs/n"})",
      {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"}, {R"({"v":1})", R"({"v":1,"next":{"v":2}})"});
  expect(R"({"type":"array","items":{"$ref":"#"}})", {"[]", "[[],[[]]]"}, {"[1]"});
  expect(R"({"definitions":{"a/b~":{"const":1}},"$ref":"#/definitions/a~1b~0"})", {"1"}, {"2"});
  expect(
      R"({"$defs":{"s":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/s","maxLength":1}},"required":["a"],"type":"object"})",
      {R"({"a":"x"})"}, {R"({"a":"xy"})", R"({"a":1})"});
  expect(
      R"({"anyOf":[{"type":"null"},{"$ref":"#/$defs/endless"}],"$defs":{"endless":{"type":"array","items":{"$ref":"#/$defs/endless"},"minItems":1}}})",
      {"null"}, {"[]", "[[]]"});
  expect(R"({"$defs":{"s":{"type":"string"}},"properties":{"a/b":{"$ref":"#/$defs/s"}}})", {"\"x\""}, {"{}"},
         {.at = "#/properties/a~1b"});
  EXPECT_THAT(invalid(R"({"$ref":"#"})"), HasSubstr("# refers to itself without any content between"));
  EXPECT_THAT(
      invalid(R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}}})"),
      HasSubstr("refers to itself"));
  EXPECT_THAT(invalid(R"({"$ref":"#/$defs/a"})"), HasSubstr("#/$ref: there is nothing at '#/$defs/a'"));
  EXPECT_THAT(unsupported(R"({"$ref":"http://example.com/a"})"), HasSubstr("is not within this document"));
  EXPECT_THAT(invalid(R"({"type":"array","minItems":1,"items":{"$ref":"#"}})"), HasSubstr("no document is valid"));
}

TEST(JsonSchema, KeywordsAreRefusedByName) {
  for (const char* keyword : {"not", "if", "contains", "dependentRequired", "unevaluatedProperties", "propertyNames",
                              "$dynamicRef", "whatever"}) {
    EXPECT_THAT(unsupported(fmt::format(R"({{"properties":{{"a":{{"{}":{{}}}}}}}})", keyword)),
                HasSubstr(fmt::format("#/properties/a/{0}: the keyword '{0}' is not supported; ", keyword)));
  }
  expect(
      R"({"$schema":"x","$id":"y","title":"t","description":"d","default":1,"examples":[],"deprecated":true,"x-order":1,"type":"null"})",
      {"null"}, {});
}

TEST(JsonSchema, Whitespace) {
  expect(R"({"type":"array","items":{"const":1}})", {"[1,1]"}, {"[ 1]", "[1, 1]"}, {.most_whitespace = 0});
  expect(R"({"type":"array","items":{"const":1}})", {"[  1,  1  ]"}, {"[   1]", "[\t1]", " [1]", "[1] "},
         {.most_whitespace = 2});
  AstBuilder builder;
  const RuleId root = builder.declare("root");
  builder.define(root, add_json_object(builder));
  EXPECT_TRUE(naive_match(std::move(builder).finish(root), R"({"a": [1, {"b": null}]})"));
}

TEST(JsonSchema, HostileSchemasEndInAnError) {
  std::string branches;
  for (int i = 0; i < 20; ++i) {
    branches += fmt::format(R"({}{{"anyOf":[{{"minimum":{}}},{{"maximum":{}}}]}})", i == 0 ? "" : ",", i, -i - 1);
  }
  EXPECT_THAT(invalid(R"({"allOf":[)" + branches + "]}"), HasSubstr("make it smaller or flatter"));
  std::string patterns;
  for (int i = 0; i < 50; ++i) {
    patterns += fmt::format(R"({}"p{}":{{"type":"string","allOf":[{{"pattern":"a[ab{}]{{9}}$"}},{{"pattern":"b"}}]}})",
                            i == 0 ? "" : ",", i, i);
  }
  EXPECT_THAT(invalid(R"({"type":"object","properties":{)" + patterns + "}}"), HasSubstr("make them smaller"));
  std::string values;
  for (int i = 0; i < 300'000; ++i) {
    values += fmt::format("{}\"{}\"", i == 0 ? "" : ",", i * int64_t{7919});
  }
  EXPECT_THAT(invalid(R"({"enum":[)" + values + "]}"), HasSubstr("#/enum: 300000 values; the limit is 50000"));
  std::string nested = "{}";
  for (int i = 0; i < 180; ++i) {
    nested = R"({"items":)" + nested + "}";
  }
  EXPECT_THROW(chat::value_from_json(std::string(10'000, '[')), Error);
  EXPECT_NO_THROW(ast_of(nested));
}

TEST(JsonSchema, LargeSchemasAreQuick) {
  std::string properties;
  for (int i = 0; i < 100; ++i) {
    const char* kind = i % 4 == 0   ? R"({"type":"string","description":"text"})"
                       : i % 4 == 1 ? R"({"type":"integer","minimum":0,"maximum":1000})"
                       : i % 4 == 2 ? R"({"type":"array","items":{"type":"number"}})"
                                    : R"({"enum":["one","two","three"]})";
    properties += fmt::format(R"({}"property_{}":{})", i == 0 ? "" : ",", i, kind);
  }
  const std::clock_t start = std::clock();
  const Ast ast = ast_of(R"({"type":"object","properties":{)" + properties + R"(},"required":["property_50"]})");
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_LT(ast.nodes.size(), 10'000u);
  EXPECT_LT(seconds, 0.2);  // 20 ms on a quiet machine
  RecordProperty("milliseconds", static_cast<int>(seconds * 1000));
}

}  // namespace
}  // namespace minfer::engine::grammar
