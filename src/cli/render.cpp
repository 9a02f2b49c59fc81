// `minfer render --chat-template FILE | --model MODEL --input FILE.json`: renders a chat template with the variables of
// a JSON object (messages, tools, add_generation_prompt, bos_token and any other) and writes exactly the rendered
// bytes.
#include <memory>

#include "chat/template.hpp"
#include "chat/value.hpp"
#include "cli/command.hpp"
#include "cli/io.hpp"
#include "cli/model_options.hpp"
#include "gguf/reader.hpp"

namespace minfer::cli {
namespace {

struct Options {
  std::string template_file;
  std::string model;
  std::string input;
};

chat::Template load_template(const Options& options) {
  if (options.template_file.empty() == options.model.empty()) {
    throw UsageError("give --chat-template FILE or --model MODEL");
  }
  if (!options.template_file.empty()) {
    return chat::Template::parse(read_template(options.template_file), options.template_file);
  }
  const gguf::File file(find_model(options.model));
  const auto source = file.metadata().find_string("tokenizer.chat_template");
  if (!source) fail(ErrorCode::invalid_input, "{}: the model has no chat template", file.metadata().source());
  return chat::Template::parse(*source, "tokenizer.chat_template of " + file.metadata().source());
}

chat::Value read_variables(const std::string& path) {
  const std::string text = read_input(path);
  try {
    return chat::value_from_json(text);
  } catch (const Error& error) {
    throw UsageError(fmt::format("{}: {}", path, error.what()));
  }
}

int run_render(const Options& options) {
  const chat::Template chat_template = load_template(options);
  const chat::Value variables = read_variables(options.input);
  if (!variables.is(chat::Kind::dict)) throw UsageError(fmt::format("{}: expected a JSON object", options.input));
  write_stdout(chat_template.render(variables));
  return 0;
}

}  // namespace

std::function<int()> declare_render(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("--chat-template", options->template_file, "A Jinja template")->type_name("FILE");
  app.add_option("--model", options->model, "A model whose own template to take")->type_name("MODEL");
  app.add_option("--input", options->input, "JSON object with the variables; -: stdin")
      ->type_name("FILE.json")
      ->required();
  return [options] { return run_render(*options); };
}

}  // namespace minfer::cli
