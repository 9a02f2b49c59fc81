// What grammars cost on a model's vocabulary, on one thread: compiling, and the mask before each token of a document
// that matches. Each grammar is walked twice by fresh matchers: the first meets every place in it for the first time
// ("cold"), the second finds what the first has kept ("warm"). Times in microseconds.
// Usage: grammar_bench MODEL.gguf [DIRECTORY]
// DIRECTORY: pairs NAME.gbnf, or NAME.json (a JSON Schema), and NAME.txt of more grammars and documents.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "chat/value.hpp"
#include "engine/grammar/gbnf.hpp"
#include "engine/grammar/grammar.hpp"
#include "engine/grammar/json_schema.hpp"
#include "gguf/reader.hpp"
#include "model/vocab.hpp"
#include "tokenizer/tokenizer.hpp"

namespace minfer {
namespace {

namespace grammar = engine::grammar;
using Clock = std::chrono::steady_clock;

constexpr const char* kJson = R"(root ::= ws value ws
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (member ("," ws member)*)? "}"
member ::= string ws ":" ws value ws
array ::= "[" ws (value ws ("," ws value ws)*)? "]"
string ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
ws ::= [ \t\n\r]*
)";

double micros_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Case {
  std::string name;
  std::string text;
  std::function<grammar::Ast()> ast;
};

void print_times(const char* what, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const auto at = [&](double part) { return times[static_cast<size_t>(part * static_cast<double>(times.size() - 1))]; };
  std::printf("  %s: %zu masks, median %.1f, 90%% %.1f, 99%% %.1f, most %.1f\n", what, times.size(), at(0.5), at(0.9),
              at(0.99), times.back());
}

std::vector<double> walk(const std::shared_ptr<const grammar::Grammar>& compiled, const std::vector<int32_t>& ids,
                         double& accept_micros) {
  std::vector<double> times;
  grammar::Matcher matcher(compiled);
  for (const int32_t id : ids) {
    const auto start = Clock::now();
    const auto mask = matcher.mask();
    times.push_back(micros_since(start));
    if ((mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1) == 0) {
      fail(ErrorCode::invalid_input, "token {} of the document, {}, does not match", times.size(), id);
    }
    const auto then = Clock::now();
    matcher.accept(id);
    accept_micros += micros_since(then);
  }
  const auto start = Clock::now();
  matcher.mask();
  times.push_back(micros_since(start));
  if (!matcher.is_complete()) fail(ErrorCode::invalid_input, "the document ends early");
  return times;
}

void run(const Case& one, const tokenizer::Tokenizer& tokenizer,
         const std::shared_ptr<const grammar::TokenTable>& table) {
  auto start = Clock::now();
  const grammar::Ast ast = one.ast();
  const double parse = micros_since(start);
  start = Clock::now();
  const auto compiled = grammar::compile(ast, table);
  std::printf("%s: read in %.0f, compiled in %.0f\n", one.name.c_str(), parse, micros_since(start));
  const auto ids = tokenizer.encode(one.text);
  double cold_accept = 0, warm_accept = 0;
  print_times("cold", walk(compiled, ids, cold_accept));
  print_times("warm", walk(compiled, ids, warm_accept));
  const double count = static_cast<double>(ids.size());
  std::printf("  a token is accepted in %.2f cold, %.2f warm\n", cold_accept / count, warm_accept / count);
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

grammar::Ast schema_ast(const std::string& schema) {
  grammar::AstBuilder builder;
  const grammar::RuleId root = builder.declare("root");
  builder.define(root, grammar::add_json_schema(builder, chat::value_from_json(schema)));
  return std::move(builder).finish(root);
}

// A schema of 100 properties, half of them required, and a document of all.
Case wide_schema() {
  const char* types[] = {
      R"({"type": "string", "maxLength": 40})",
      R"({"type": "integer", "minimum": 0, "maximum": 99999})",
      R"({"type": "number"})",
      R"({"enum": ["red", "green", "blue"]})",
      R"({"type": "array", "items": {"type": "string"}, "maxItems": 8})",
      R"({"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "boolean"}}, "required": ["x"], "additionalProperties": false})",
      R"({"type": "string", "format": "date-time"})",
      R"({"type": ["string", "null"]})",
      R"({"type": "string", "pattern": "^[A-Z]{2}[0-9]{4,8}$"})",
      R"({"type": "boolean"})"};
  const char* values[] = {
      "\"some words of text\"",   "4711", "-1.25e3",     "\"green\"", "[\"a\", \"bc\"]", "{\"x\": 1.5, \"y\": true}",
      "\"2024-02-29T12:00:00Z\"", "null", "\"AB12345\"", "false"};
  std::string properties, required, document;
  for (int i = 0; i < 100; ++i) {
    const std::string gap = i > 0 ? ", " : "";
    properties += fmt::format("{}\"property_{}\": {}", gap, i, types[i % 10]);
    if (i % 2 == 0) required += fmt::format("{}\"property_{}\"", gap, i);
    document += fmt::format("{}\"property_{}\": {}", gap, i, values[i % 10]);
  }
  const std::string schema =
      fmt::format(R"({{"type": "object", "properties": {{{}}}, "required": [{}], "additionalProperties": false}})",
                  properties, required);
  return {"schema of 100 properties", "{" + document + "}", [=] { return schema_ast(schema); }};
}

std::vector<Case> cases_in(const std::filesystem::path& folder) {
  std::vector<Case> cases;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const bool is_schema = entry.path().extension() == ".json";
    if (!is_schema && entry.path().extension() != ".gbnf") continue;
    auto text = entry.path();
    const std::string grammar_text = read_text(entry.path());
    const std::string name = entry.path().filename();
    cases.push_back({name, read_text(text.replace_extension(".txt")),
                     [=] { return is_schema ? schema_ast(grammar_text) : grammar::parse_gbnf(grammar_text, name); }});
  }
  return cases;
}

// A document of records, as a schema would ask for.
std::string document(bool compact) {
  const char* gap = compact ? "" : "\n    ";
  std::string out = "[";
  for (int i = 0; i < 24; ++i) {
    out += fmt::format(
        "{}{{{}\"id\": {}, {}\"name\": \"Ada Lovelace {}\", {}\"email\": \"ada{}@example.org\", {}\"scores\": [{}.5, "
        "-3, "
        "1e10], {}\"note\": \"Caf\xC3\xA9 \xE2\x82\xAC {} and \\\"more\\\" \\n\", {}\"active\": {}, {}\"tags\": "
        "[\"x\", "
        "\"machine learning\"], {}\"next\": null}}",
        i > 0 ? ", " : "", gap, i, gap, i, gap, i, gap, i, gap, i * 7, gap, i % 2 == 0, gap, gap);
  }
  return out + "]";
}

constexpr const char* kRecords = R"(root ::= "[" (record (", " record)*)? "]"
record ::= "{" ws "\"id\": " [0-9]{1,15} ", " ws "\"name\": " text40 ", " ws "\"email\": " string ", " ws "\"scores\": [" number (", " number){0,9} "], " ws "\"note\": " string ", " ws "\"active\": " ("true" | "false") ", " ws "\"tags\": [" tag (", " tag)* "], " ws "\"next\": " ("null" | record) "}"
tag ::= "\"x\"" | "\"y\"" | "\"machine learning\"" | "\"machinery\""
text40 ::= "\"" char{0,40} "\""
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})
number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
ws ::= [ \n]{0,16}
)";

int main_checked(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: grammar_bench MODEL.gguf [DIRECTORY]\n");
    return 2;
  }
  const gguf::File file(argv[1]);
  const tokenizer::Tokenizer tokenizer(model::read_vocab(file));
  const auto start = Clock::now();
  const auto table = grammar::make_token_table(tokenizer);
  std::printf("vocabulary of %zu tokens, its table made in %.0f\n", tokenizer.vocab().size(), micros_since(start));
  std::vector<Case> cases = {
      {"JSON", document(false), [] { return grammar::parse_gbnf(kJson, "JSON"); }},
      {"JSON compact", document(true), [] { return grammar::parse_gbnf(kJson, "JSON"); }},
      {"records", document(true), [] { return grammar::parse_gbnf(kRecords, "records"); }},
      {"records, spaced", document(false), [] { return grammar::parse_gbnf(kRecords, "records"); }},
  };
  cases.push_back(wide_schema());
  if (argc > 2) {
    auto more = cases_in(argv[2]);
    cases.insert(cases.end(), more.begin(), more.end());
  }
  for (const Case& one : cases) run(one, tokenizer, table);
  return 0;
}

}  // namespace
}  // namespace minfer

int main(int argc, char** argv) {
  try {
    return minfer::main_checked(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "grammar_bench: %s\n", error.what());
    return 1;
  }
}
