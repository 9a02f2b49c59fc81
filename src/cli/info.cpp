// `minfer info MODEL [--json]`: metadata and tensors of a GGUF file, from its header alone; works for architectures
// that minfer does not run. Values come from the file, so what is not UTF-8 is replaced when printed.
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/io.hpp"
#include "cli/model_options.hpp"
#include "gguf/reader.hpp"
#include "model/arch.hpp"

namespace minfer::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShownTextBytes = 80;

// A value as JSON; arrays as their type and length, since a vocabulary is no reading matter.
Json value_json(const gguf::Metadata& metadata, const gguf::Value& value) {
  using gguf::ValueType;
  switch (value.type) {
    case ValueType::string:
      return std::string(*metadata.find_string(value.key));
    case ValueType::boolean:
      return *metadata.find_bool(value.key);
    case ValueType::f32:
    case ValueType::f64:
      return *metadata.find_f32(value.key);
    case ValueType::u64: {
      uint64_t number = 0;
      std::memcpy(&number, value.payload.data(), sizeof number);
      return number;
    }
    case ValueType::array:
      return gguf::describe_type(value);
    default:
      return *metadata.find_i64(value.key);
  }
}

std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

bool is_supported(std::string_view architecture) {
  for (const auto& row : model::architectures()) {
    if (row.name == architecture) return true;
  }
  return false;
}

Json file_json(const gguf::File& file) {
  Json json;
  const std::string architecture(file.metadata().find_string("general.architecture").value_or(""));
  json["files"] = file.part_names();
  json["version"] = file.version();
  json["architecture"] = architecture;
  json["supported"] = is_supported(architecture);
  int64_t parameters = 0, bytes = 0;
  Json tensors = Json::array();
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    int64_t elements = 1;
    Json shape = Json::array();
    for (int d = 0; d < tensor.dims; ++d) {
      elements *= tensor.shape[static_cast<size_t>(d)];
      shape.push_back(tensor.shape[static_cast<size_t>(d)]);
    }
    parameters += elements;
    bytes += static_cast<int64_t>(tensor.bytes);
    tensors.push_back({{"name", tensor.name},
                       {"type", tensor::dtype_info(tensor.dtype).name},
                       {"shape", std::move(shape)},
                       {"bytes", tensor.bytes}});
  }
  json["parameters"] = parameters;
  json["tensor_bytes"] = bytes;
  // Keys are distinct (the reader checked), so they are appended without nlohmann's linear search.
  Json::object_t metadata;
  for (const gguf::Value& value : file.metadata().values()) {
    metadata.push_back({std::string(value.key), value_json(file.metadata(), value)});
  }
  json["metadata"] = std::move(metadata);
  json["tensors"] = std::move(tensors);
  return json;
}

std::string shortened(const std::string& text) {
  if (text.size() <= kShownTextBytes) return text;
  size_t end = kShownTextBytes;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not inside a character
  return text.substr(0, end) + "...";
}

std::string to_text(const Json& json) {
  std::string text;
  for (const auto& name : json["files"]) text += fmt::format("file          {}\n", printable(name.get<std::string>()));
  text += fmt::format("architecture  {}{}\n", printable(json["architecture"].get<std::string>()),
                      json["supported"].get<bool>() ? "" : " (not supported)");
  text += fmt::format("parameters    {:.1f} M in {} tensors, {:.1f} MB\n", json["parameters"].get<double>() / 1e6,
                      json["tensors"].size(), json["tensor_bytes"].get<double>() / 1e6);
  text += "metadata\n";
  for (const auto& [key, value] : json["metadata"].items())
    text += fmt::format("  {} = {}\n", key, shortened(dump(value, -1)));
  text += "tensors\n";
  for (const auto& tensor : json["tensors"]) {
    text += fmt::format("  {:<40} {:<8} {}\n", tensor["name"].get<std::string>(), tensor["type"].get<std::string>(),
                        tensor["shape"].dump());
  }
  return text;
}

}  // namespace

std::function<int()> declare_info(CLI::App& app) {
  struct Options {
    std::string model;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model, kModelText)->required();
  app.add_flag("--json", options->json, "Print JSON");
  return [options] {
    const gguf::File file(find_model(options->model));
    const Json json = file_json(file);
    write_stdout(options->json ? dump(json, 1) + "\n" : to_text(json));
    return 0;
  };
}

}  // namespace minfer::cli
