// DOT and JSON exporters. See export.hpp. Weight names come from files, so they are escaped.
#include "graph/export.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace minfer::graph {
namespace {

std::string json_quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string type_text(const ValueType& type) {
  return fmt::format("{}[{}][{}]", format_name(type.format), rows_name(type.rows), type.width);
}

nlohmann::json weight_names(const Node& node, std::span<const WeightShape> weights) {
  nlohmann::json names = nlohmann::json::array();
  for (const WeightId id : node.weights) {
    if (id == kNoWeight) {
      names.push_back(nullptr);
    } else {
      names.push_back(weights[static_cast<size_t>(id)].name);
    }
  }
  return names;
}

}  // namespace

std::string to_dot(const Graph& graph, std::span<const WeightShape> weights) {
  std::string dot = "digraph minfer {\n  node [shape=box, fontname=\"monospace\"];\n";
  std::vector<int64_t> producer(graph.values.size(), -1);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    std::string label(op_name(node.op));
    for (const WeightId id : node.weights) {
      if (id != kNoWeight) label += "\n" + weights[static_cast<size_t>(id)].name;
    }
    dot += fmt::format("  n{} [label={}];\n", n, json_quoted(label));
    for (const ValueId output : node.outputs) producer[static_cast<size_t>(output)] = static_cast<int64_t>(n);
    for (const ValueId input : node.inputs) {
      const Value& value = graph.values[static_cast<size_t>(input)];
      const int64_t from = producer[static_cast<size_t>(input)];
      const std::string source = from < 0 ? json_quoted(value.name) : fmt::format("n{}", from);
      dot += fmt::format("  {} -> n{} [label={}];\n", source, n, json_quoted(type_text(value.type)));
    }
  }
  const auto add_result = [&](ValueId id, const std::string& name) {
    const Value& value = graph.values[static_cast<size_t>(id)];
    dot += fmt::format("  n{} -> {} [label={}];\n", producer[static_cast<size_t>(id)], json_quoted(name),
                       json_quoted(type_text(value.type)));
  };
  for (const ValueId id : graph.exports) {
    add_result(id, fmt::format("export {}", graph.values[static_cast<size_t>(id)].name));
  }
  if (graph.logits != kNoValue) add_result(graph.logits, "logits");
  return dot + "}\n";
}

std::string to_json(const Graph& graph, std::span<const WeightShape> weights) {
  nlohmann::json json;
  json["shape"] = {{"tokens", graph.shape.tokens}, {"outputs", graph.shape.outputs}};
  json["values"] = nlohmann::json::array();
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    json["values"].push_back({{"id", v},
                              {"name", value.name},
                              {"format", format_name(value.type.format)},
                              {"rows", rows_name(value.type.rows)},
                              {"width", value.type.width}});
  }
  json["nodes"] = nlohmann::json::array();
  for (const Node& node : graph.nodes) {
    json["nodes"].push_back({{"op", op_name(node.op)},
                             {"inputs", node.inputs},
                             {"weights", weight_names(node, weights)},
                             {"outputs", node.outputs}});
  }
  json["imports"] = graph.imports;
  json["exports"] = graph.exports;
  json["logits"] = graph.logits;
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace minfer::graph
