// Values, the ordered dict, JSON input, and the variables made of a conversation.
#include "chat/value.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "chat/messages.hpp"
#include "chat/template.hpp"

namespace minfer::chat {
namespace {

TEST(Dict, KeepsOrderAndFindsEveryKey) {
  Dict dict;
  for (int index = 0; index < 5000; ++index) dict.set("key" + std::to_string(index), Value::integer(index));
  dict.set("key7", Value::integer(-7));
  ASSERT_EQ(dict.size(), 5000u);
  for (int index = 0; index < 5000; ++index) {
    const Value* found = dict.find("key" + std::to_string(index));
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->as_int(), index == 7 ? -7 : index);
    EXPECT_EQ(dict.entries()[static_cast<size_t>(index)].first.as_string(), "key" + std::to_string(index));
  }
  EXPECT_EQ(dict.find("key5000"), nullptr);
}

TEST(Dict, EqualNumbersAreOneKey) {
  Dict dict;
  dict.set(Value::integer(1), Value::integer(10));
  dict.set(Value::floating(1.0), Value::integer(20));
  dict.set(Value::boolean(true), Value::integer(30));
  ASSERT_EQ(dict.size(), 1u);
  EXPECT_EQ(dict.entries()[0].second.as_int(), 30);
  EXPECT_EQ(dict.find(Value::floating(1.5)), nullptr);
}

TEST(Json, KeepsKeyOrderAndTypes) {
  const Value value = value_from_json(R"({"z": 1, "a": [true, null, 1.5, -3, "\u00e9\ud83d\ude42"], "m": {}})");
  const auto& entries = value.as_dict().entries();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].first.as_string(), "z");
  EXPECT_EQ(entries[1].first.as_string(), "a");
  const auto& items = entries[1].second.items();
  EXPECT_TRUE(items[0].is(Kind::boolean));
  EXPECT_TRUE(items[1].is_none());
  EXPECT_EQ(items[2].as_double(), 1.5);
  EXPECT_EQ(items[3].as_int(), -3);
  EXPECT_EQ(items[4].as_string(), "é🙂");
}

TEST(Json, RefusesWhatItCannotHold) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& text :
       {std::string("{"), std::string("[1,]"), std::string("\"\xFF\""), std::string("\"\\ud800\""),
        std::string("9223372036854775808"), std::string("123456789012345678901234567890"), std::string("1e999"),
        std::string(""), deep}) {
    EXPECT_THROW(value_from_json(text), Error) << text.substr(0, 40);
  }
  EXPECT_THROW(value_from_json(std::string_view("{}\0 more", 8)), Error) << "a zero byte is no end";
  std::string many = "[0";
  for (size_t i = 2; i < kMaxJsonValues; ++i) many += ",0";  // and the list
  EXPECT_EQ(value_from_json(many + "]").items().size(), kMaxJsonValues - 1);
  EXPECT_THROW(value_from_json(many + ",0]"), Error);
  const std::string allowed = std::string(kMaxValueDepth, '[') + std::string(kMaxValueDepth, ']');
  EXPECT_EQ(value_from_json(allowed).depth(), kMaxValueDepth);
}

TEST(Value, TextsAreValidUtf8) {
  EXPECT_EQ(Value::string("\xF4\x8F\xBF\xBF").as_string(), "\xF4\x8F\xBF\xBF");
  EXPECT_THROW(Value::string("\xFF"), Error);
}

TEST(Messages, VariablesAsTransformersPassesThem) {
  Conversation conversation;
  conversation.messages.push_back({"system", Value::string("S"), {}});
  conversation.messages.push_back({"assistant", Value(), {}});
  conversation.messages.back().more.set("reasoning_content", Value::string("R"));
  conversation.bos_token = "<s>";
  conversation.more.set("enable_thinking", Value::boolean(false));
  const Value variables = template_variables(conversation);
  const std::string source =
      "{{ bos_token }}{{ eos_token is defined }}{{ tools is none }}{{ add_generation_prompt }}"
      "{{ enable_thinking }}{% for m in messages %}[{{ m|tojson }}]{% endfor %}";
  EXPECT_EQ(
      Template::parse(source, "t").render(variables),
      R"(<s>FalseTrueTrueFalse[{"role": "system", "content": "S"}][{"role": "assistant", "reasoning_content": "R"}])");
}

}  // namespace
}  // namespace minfer::chat
