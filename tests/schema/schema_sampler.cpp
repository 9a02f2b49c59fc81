// What a schema's grammar does, for schema_test.py: reads one JSON command a line from stdin, {"schema", "samples",
// "seed", "documents", "whitespace"}, and writes one answer a line: texts drawn from the grammar at random and whether
// it matches each document, or the error. `schema` is JSON text in a string, so that its order and numbers stay as they
// are.
#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.hpp"
#include "base/utf8.hpp"
#include "engine/grammar/byte_tokens_testing.hpp"
#include "engine/grammar/grammar.hpp"
#include "engine/grammar/json_schema.hpp"
#include "engine/grammar/naive_match_testing.hpp"

namespace {

using minfer::engine::grammar::add_json_schema;
using minfer::engine::grammar::Ast;
using minfer::engine::grammar::AstBuilder;
using minfer::engine::grammar::byte_tokens;
using minfer::engine::grammar::CodeRange;
using minfer::engine::grammar::compile;
using minfer::engine::grammar::Grammar;
using minfer::engine::grammar::Matcher;
using minfer::engine::grammar::naive_match;
using minfer::engine::grammar::Node;
using minfer::engine::grammar::NodeId;
using minfer::engine::grammar::NodeKind;
using minfer::engine::grammar::RuleId;
using minfer::engine::grammar::SchemaOptions;
using minfer::engine::grammar::TokenTable;
using nlohmann::json;

// Draws texts: any way at a choice while the text is short, the shortest one after.
class Sampler {
 public:
  Sampler(const Ast& ast, uint64_t seed)
      : ast_(ast), random_(seed), node_size_(ast.nodes.size(), kEndless), rule_size_(ast.rules.size(), kEndless) {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < ast.nodes.size(); ++i) {
        const uint64_t size = smallest(ast.nodes[i]);
        changed = changed || size < node_size_[i];
        node_size_[i] = size;
      }
      for (size_t i = 0; i < ast.rules.size(); ++i) {
        rule_size_[i] = node_size_[*ast.rules[i].node];
      }
    }
  }

  std::string draw(size_t usual_bytes) {
    usual_bytes_ = usual_bytes;
    text_.clear();
    write(*ast_.rules[ast_.root].node);
    return text_;
  }

 private:
  static constexpr uint64_t kEndless = uint64_t{1} << 50;

  uint64_t smallest(const Node& node) const {
    uint64_t size = node.kind == NodeKind::alternatives ? kEndless : 0;
    switch (node.kind) {
      case NodeKind::literal:
        return node.text.size();
      case NodeKind::code_class:
        return 1;
      case NodeKind::reference:
        return std::min(kEndless, rule_size_[node.rule] + 1);
      case NodeKind::repeat:
        return node.least == 0 ? 0 : std::min(kEndless, node_size_[node.children[0]] * node.least);
      default:
        for (const NodeId child : node.children) {
          size = node.kind == NodeKind::sequence ? std::min(kEndless, size + node_size_[child])
                                                 : std::min(size, node_size_[child]);
        }
        return size;
    }
  }

  uint32_t below(size_t count) { return static_cast<uint32_t>(random_() % count); }
  bool is_long() const { return text_.size() >= usual_bytes_; }

  void write(NodeId id) {
    const Node& node = ast_.nodes[id];
    switch (node.kind) {
      case NodeKind::literal:
        text_ += node.text;
        return;
      case NodeKind::code_class: {
        const CodeRange range = node.ranges[below(std::min<size_t>(node.ranges.size(), below(4) == 0 ? 1000 : 2))];
        const uint32_t count = range.last - range.first + 1;
        minfer::append_utf8(text_, range.first + below(below(8) == 0 ? count : std::min(count, 100U)));
        return;
      }
      case NodeKind::reference:
        write(*ast_.rules[node.rule].node);
        return;
      case NodeKind::sequence:
        for (const NodeId child : node.children) {
          write(child);
        }
        return;
      case NodeKind::alternatives:
        write(choice(node));
        return;
      case NodeKind::repeat: {
        uint64_t count = node.least;
        while (!is_long() && count < node.most.value_or(UINT32_MAX) && below(3) != 0) {
          ++count;
        }
        if (node.most && !is_long() && *node.most < 50 && below(10) == 0) {
          count = *node.most;
        }
        for (uint64_t i = 0; i < count; ++i) {
          write(node.children[0]);
        }
      }
    }
  }

  NodeId choice(const Node& node) {
    NodeId best = node.children[below(node.children.size())];
    if (is_long() || node_size_[best] >= kEndless) {
      for (const NodeId child : node.children) {
        best = node_size_[child] < node_size_[best] ? child : best;
      }
    }
    return best;
  }

  const Ast& ast_;
  std::mt19937_64 random_;
  std::vector<uint64_t> node_size_;
  std::vector<uint64_t> rule_size_;
  size_t usual_bytes_ = 0;
  std::string text_;
};

std::shared_ptr<const TokenTable> small_vocabulary() {
  return byte_tokens({"{\"",   "\":",  "\",", "\",\"", "\": ", "\"}", "[]", "{}", "],", "null", "true",
                      "false", "name", "12",  "00",    "123",  "-1",  "0.", ".5", "ab", "\\u",  "\xC3\xA9"});
}

// Whether the compiled automaton lets the text through, cut into tokens at random, to its end.
bool matches(const std::shared_ptr<const Grammar>& grammar, const TokenTable& tokens, const std::string& text,
             std::mt19937_64& random) {
  Matcher matcher(grammar);
  for (size_t at = 0; at < text.size();) {
    const std::span<const uint32_t> mask = matcher.mask();
    std::vector<int32_t> ways;
    for (const int32_t id : tokens.sorted()) {
      const bool fits = std::string_view(text).substr(at).starts_with(tokens.text(id));
      if (fits && (mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0) {
        ways.push_back(id);
      }
    }
    if (ways.empty()) {
      return false;
    }
    const int32_t token = ways[random() % ways.size()];
    at += tokens.text(token).size();
    matcher.accept(token);
  }
  return matcher.is_complete();
}

json answer(const json& command) {
  AstBuilder builder;
  const RuleId root = builder.declare("root");
  const auto start = std::chrono::steady_clock::now();
  const SchemaOptions options{.most_whitespace = command.value("whitespace", 0U), .open = command.value("open", true)};
  builder.define(
      root, add_json_schema(builder, minfer::chat::value_from_json(command["schema"].get<std::string>()), options));
  const Ast ast = std::move(builder).finish(root);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  json out = {{"nodes", ast.nodes.size()},
              {"rules", ast.rules.size()},
              {"seconds", seconds},
              {"samples", json::array()},
              {"accepted", json::array()}};
  const auto compiling = std::chrono::steady_clock::now();
  const std::shared_ptr<const TokenTable> tokens = small_vocabulary();
  const std::shared_ptr<const Grammar> grammar = compile(ast, tokens);
  out["compile_seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - compiling).count();
  std::mt19937_64 random(command.value("seed", 1U));
  const auto both = [&](const std::string& text, bool expected) {
    if (matches(grammar, *tokens, text, random) != expected) {
      out["difference"] = text;
    }
  };
  Sampler sampler(ast, command.value("seed", 1U));
  for (uint32_t i = 0; i < command.value("samples", 0U); ++i) {
    const std::string text = sampler.draw(10 + i % 10 * 20);
    both(text, true);
    out["samples"].push_back(text);
  }
  for (const json& document : command.value("documents", json::array())) {
    const bool accepted = naive_match(ast, document.get<std::string>());
    both(document.get<std::string>(), accepted);
    out["accepted"].push_back(accepted);
  }
  return out;
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    json out;
    try {
      out = answer(json::parse(line));
    } catch (const minfer::Error& error) {
      out = {{"error", error.what()}, {"code", minfer::error_code_name(error.code())}};
    }
    std::cout << out.dump() << std::endl;
  }
}
