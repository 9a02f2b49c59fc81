// Says for tokenizer_compare_test.py what the tokenizer makes of texts. Usage:
//   token_ids ids FILE      for each line of stdin, a JSON string: its ids, special tokens parsed, as a JSON array
//   token_ids special FILE  the same with the tokens of begin and end
//   token_ids round FILE    the same, and the text that the ids decode to: [ids, text]
//   token_ids pieces        first the rules as JSON; then for each line, [rule, text]: the pieces, as a JSON array
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "gguf/reader.hpp"
#include "model/vocab.hpp"
#include "tokenizer/pretokenizer.hpp"
#include "tokenizer/tokenizer.hpp"

namespace {

using minfer::tokenizer::EncodeOptions;
using minfer::tokenizer::find_pretokenizer_rule;
using minfer::tokenizer::Pretokenizer;
using minfer::tokenizer::pretokenizer_rules;
using minfer::tokenizer::PretokenizerRule;
using minfer::tokenizer::SplitStep;
using minfer::tokenizer::Splitter;
using minfer::tokenizer::Tokenizer;
using nlohmann::json;

std::string_view splitter_name(Splitter splitter) {
  switch (splitter) {
    case Splitter::number_threes:
      return "number_threes";
    case Splitter::before_threes:
      return "before_threes";
    case Splitter::bounded_threes:
      return "bounded_threes";
    case Splitter::expression:
      break;
  }
  return "";
}

json describe_rules() {
  json rows = json::array();
  for (const PretokenizerRule& rule : pretokenizer_rules()) {
    json steps = json::array();
    for (const SplitStep& step : rule.steps) {
      const bool is_expression = step.splitter == Splitter::expression;
      steps.push_back(is_expression ? step.expression : splitter_name(step.splitter));
    }
    rows.push_back({{"name", rule.names[0]}, {"steps", steps}, {"drops_space", rule.drops_space}});
  }
  return rows;
}

void answer_lines(const std::function<json(const json&)>& answer) {
  for (std::string line; std::getline(std::cin, line);) {
    const std::string text = answer(json::parse(line)).dump();
    std::cout << text << '\n' << std::flush;
  }
}

void split_texts() {
  std::cout << describe_rules().dump() << '\n' << std::flush;
  std::map<std::string, std::unique_ptr<Pretokenizer>> made;
  Pretokenizer::Scratch scratch;
  answer_lines([&](const json& line) {
    const auto name = line[0].get<std::string>();
    const auto text = line[1].get<std::string>();
    auto& pretokenizer = made[name];
    if (!pretokenizer) pretokenizer = std::make_unique<Pretokenizer>(find_pretokenizer_rule(name));
    json pieces = json::array();
    for (const std::string_view piece : pretokenizer->split(text, scratch)) pieces.push_back(piece);
    return pieces;
  });
}

void encode_texts(std::string_view mode, const std::string& path) {
  const minfer::gguf::File file(path);
  const Tokenizer tokenizer(minfer::model::read_vocab(file));
  const EncodeOptions options{.parse_special = true, .add_special = mode == "special"};
  answer_lines([&](const json& line) {
    const auto ids = tokenizer.encode(line.get<std::string>(), options);
    if (mode != "round") return json(ids);
    return json::array({ids, tokenizer.decode(ids, {.show_control = true})});
  });
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view mode = count > 1 ? arguments[1] : "";
  try {
    if (mode == "pieces") {
      split_texts();
    } else if (count == 3) {
      encode_texts(mode, arguments[2]);
    } else {
      std::fputs("usage: token_ids ids|special|round FILE, or token_ids pieces\n", stderr);
      return 2;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "token_ids: %s\n", error.what());
    return 1;
  }
  return 0;
}
