// Hostile templates: each must end in an Error, soon, and without exhausting the stack or the memory.
// Each ends by a limit on steps, depth, text or memory, not by the clock: machines differ.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "chat/template.hpp"

namespace minfer::chat {
namespace {

using ::testing::HasSubstr;

std::string repeat(std::string_view text, size_t count) {
  std::string out;
  for (size_t index = 0; index < count; ++index) out += text;
  return out;
}

// The message of the Error that parsing or rendering ends with; within 5 seconds.
std::string failure_of(const std::string& source, const RenderOptions& options = {}) {
  const auto begin = std::chrono::steady_clock::now();
  std::string message;
  try {
    const std::string text = Template::parse(source, "hostile").render(Value::dict({}), options);
    ADD_FAILURE() << "rendered " << text.size() << " bytes: " << source.substr(0, 200);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    message = error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30)) << source.substr(0, 200);
  return message;
}

TEST(TemplateLimits, EndlessLoops) {
  RenderOptions options;
  options.limits.max_steps = 2'000'000;
  const std::string loop = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
  EXPECT_THAT(failure_of(loop, options), HasSubstr("steps"));
  EXPECT_THAT(failure_of("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"), HasSubstr("levels deep"));
  options.limits.max_steps = UINT64_MAX;
  options.limits.max_seconds = 0.05;
  EXPECT_THAT(failure_of(loop, options), HasSubstr("more than 0.05 s, the most that one"));
}

TEST(TemplateLimits, Recursion) {
  EXPECT_THAT(failure_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), HasSubstr("levels deep"));
  EXPECT_THAT(failure_of("{% macro f(x) %}{% if 1 %}{% set y = (((([f(x)])))) %}{% endif %}{% endmacro %}{{ f(1) }}"),
              HasSubstr("levels deep"));
  EXPECT_THAT(failure_of("{% macro f() %}{% call f() %}{% endcall %}{{ caller }}{% endmacro %}{{ f() }}"),
              HasSubstr("levels deep"));
}

TEST(TemplateLimits, DeepSyntax) {
  const size_t count = 100'000;
  for (const auto& [open, close] : {std::pair{"(", ")"},
                                    {"[", "]"},
                                    {"{1:", "}"},
                                    {"-", ""},
                                    {"not ", ""},
                                    {"x[", "]"},
                                    {"f(", ")"},
                                    {"1 if 1 else ", ""}}) {
    EXPECT_THAT(failure_of("{{ " + repeat(open, count) + "1" + repeat(close, count) + " }}"), HasSubstr("nests"))
        << open;
  }
  for (const char* chain : {" + 1", ".a", "[0]", "|string", "()", " or 1", " and 1", " * 2", " ** 2", " if 1"}) {
    EXPECT_THAT(failure_of("{{ 1" + repeat(chain, count) + " }}"), HasSubstr("nests")) << chain;
  }
  EXPECT_THAT(failure_of(repeat("{% if 1 %}", count)), HasSubstr("nests"));
  EXPECT_THAT(failure_of(repeat("{% for x in y %}", count)), HasSubstr("nests"));
  EXPECT_THAT(failure_of("{% for " + repeat("(", count) + "a" + repeat(")", count) + " in x %}{% endfor %}"),
              HasSubstr("nests"));
}

TEST(TemplateLimits, LongFlatSyntaxIsFine) {
  const std::string source =
      "{{ 1" + repeat(" ~ 1", 10'000) + " }}{% if 0 %}" + repeat("{% elif 0 %}", 10'000) + "{% endif %}";
  EXPECT_EQ(Template::parse(source, "long").render(Value::dict({})), repeat("1", 10'001));
}

TEST(TemplateLimits, GrowingText) {
  EXPECT_THAT(
      failure_of("{% set ns = namespace(s='ab') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"),
      HasSubstr("bytes"));
  EXPECT_THAT(failure_of("{{ 'a' * 10000000000 }}"), HasSubstr("bytes"));
  EXPECT_THAT(failure_of("{{ [1] * 10000000000 }}"), HasSubstr("items"));
  EXPECT_THAT(failure_of("{{ ('a' * 10000000).replace('', 'xxxxxxxxxxxxxxxx') }}"), HasSubstr("bytes"));
  EXPECT_THAT(failure_of("{{ 'a'.ljust(9999999999) }}"), HasSubstr("bytes"));
  EXPECT_THAT(failure_of("{{ '%999999999d' % 1 }}"), HasSubstr("width"));
  EXPECT_THAT(failure_of("{{ '{:999999999}'.format(1) }}"), HasSubstr("width"));
  EXPECT_THAT(failure_of("{{ ('a\n' * 1000000) | indent(100000) }}"), HasSubstr("bytes"));
  RenderOptions slow;  // under sanitizers, on a busy machine
  slow.limits.max_seconds = 60;
  EXPECT_THAT(failure_of("{% for i in range(100000) %}{{ 'a' * 10000000 }}{% endfor %}", slow), HasSubstr("bytes"));
}

TEST(TemplateLimits, MemoryAliveAtOnce) {
  RenderOptions options;
  options.limits.max_memory_bytes = 64u << 20;
  const std::string source =
      "{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = ns.l + ['a' * 1000000 ~ i] %}{% endfor %}";
  EXPECT_THAT(failure_of(source, options), HasSubstr("memory"));
}

TEST(TemplateLimits, DeepValuesAndCycles) {
  EXPECT_THAT(failure_of("{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = [ns.l] %}{% endfor %}"),
              HasSubstr("containers"));
  EXPECT_THAT(
      failure_of(
          "{% set ns = namespace(l='a') %}{% for i in range(1000) %}{% set ns.l = ns.l|map('upper') %}{% endfor %}"),
      HasSubstr("containers"));
  EXPECT_THAT(failure_of("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}"), HasSubstr("nests"));
  const std::string chain =
      "{% set ns = namespace(x=1) %}{% for i in range(50000) %}{% set ns.x = namespace(x=ns.x) %}{% endfor %}ok";
  EXPECT_EQ(Template::parse(chain, "chain").render(Value::dict({})), "ok");
  const std::string macros =
      "{% set ns = namespace(m=1) %}{% for i in range(1000) %}{% macro m() %}{{ i }}{% endmacro %}"
      "{% set ns.m = m %}{% endfor %}{{ ns.m() }}";
  EXPECT_EQ(Template::parse(macros, "macros").render(Value::dict({})), "999");
}

TEST(TemplateLimits, Integers) {
  for (const char* source : {"{{ 9223372036854775807 + 1 }}", "{{ 2 ** 64 }}", "{{ -(-9223372036854775807 - 1) }}",
                             "{{ (-9223372036854775807 - 1) // -1 }}", "{{ 9223372036854775807 * 2 }}"}) {
    EXPECT_THAT(failure_of(source), HasSubstr("64 bits")) << source;
  }
  EXPECT_THAT(failure_of("{{ range(-9223372036854775807, 9223372036854775807) }}"), HasSubstr("too big"));
}

TEST(TemplateErrors, NameTheTemplateLineAndConstruct) {
  EXPECT_EQ(failure_of("a\n{{ 5|join }}"),
            "chat template hostile, line 2: filter 'join': 'int' object is not iterable");
  EXPECT_EQ(failure_of("\n\n{{ a.b.c }}"), "chat template hostile, line 3: 'a' is undefined");
  EXPECT_EQ(failure_of("{% include 'x' %}"),
            "chat template hostile, line 1: the statement 'include' is not supported in chat templates");
  EXPECT_THAT(failure_of("{{ '\xFF' }}"), HasSubstr("not valid UTF-8"));
}

TEST(TemplateErrors, RaiseExceptionIsTheTemplatesOwn) {
  try {
    Template::parse("\n{{ raise_exception('roles must alternate') }}", "t").render(Value::dict({}));
    FAIL();
  } catch (const RaisedError& error) {
    EXPECT_EQ(error.template_message(), "roles must alternate");
    EXPECT_THAT(error.what(), HasSubstr("line 2"));
  }
}

}  // namespace
}  // namespace minfer::chat
