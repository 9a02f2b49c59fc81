// `minfer tokenize MODEL [TEXT | -f FILE]` and `minfer detokenize MODEL IDS...`: the vocabulary of a model file at
// work, from its header alone.
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "cli/command.hpp"
#include "cli/io.hpp"
#include "cli/model_options.hpp"
#include "gguf/reader.hpp"
#include "model/vocab.hpp"
#include "tokenizer/tokenizer.hpp"

namespace minfer::cli {
namespace {

struct Options {
  std::string model;
  std::optional<std::string> text;
  std::string file;
  std::vector<std::string> ids;
  bool json = false;
  bool special = false;
  bool no_bos = false;
};

std::string input_text(const Options& options) {
  if (options.text && !options.file.empty()) throw UsageError("give TEXT or -f FILE, not both");
  if (options.text) return *options.text;
  return read_input(options.file.empty() ? "-" : options.file);
}

int tokenize(const Options& options) {
  const gguf::File file(find_model(options.model));
  const tokenizer::Tokenizer tokenizer(model::read_vocab(file));
  const std::string input = input_text(options);
  check_utf8(input, "the text");
  const auto ids = tokenizer.encode(input, {.parse_special = options.special, .add_special = !options.no_bos});
  if (options.json) {
    write_stdout(nlohmann::json{{"ids", ids}}.dump() + "\n");
    return 0;
  }
  std::string text;
  for (const int32_t id : ids) {
    text += fmt::format(
        "{:6} {}\n", id,
        nlohmann::json(tokenizer.token_bytes(id)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  write_stdout(text);
  return 0;
}

// Ids in text, separated by anything that is not part of a number: "1 2 3", "[1, 2, 3]" and {"ids": [1, 2, 3]} alike.
std::vector<int32_t> parse_ids(std::string_view text) {
  std::vector<int32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  while (at != end) {
    const bool negative = *at == '-' && at + 1 != end && is_digit(at[1]);
    if (!is_digit(*at) && !negative) {
      ++at;
      continue;
    }
    int32_t id = 0;
    const auto result = std::from_chars(at, end, id);
    if (result.ec != std::errc()) throw UsageError("a token id does not fit in 32 bits");
    ids.push_back(id);
    at = result.ptr;
  }
  return ids;
}

int detokenize(const Options& options) {
  const gguf::File file(find_model(options.model));
  const tokenizer::Tokenizer tokenizer(model::read_vocab(file));
  std::string input;
  for (const std::string& id : options.ids) input += id + " ";
  if (!options.ids.empty() && !options.file.empty()) throw UsageError("give IDS or -f FILE, not both");
  if (options.ids.empty()) input = read_input(options.file.empty() ? "-" : options.file);
  const auto ids = parse_ids(input);
  for (const int32_t id : ids) {
    if (tokenizer.vocab().contains(id)) continue;
    throw UsageError(fmt::format("no token {}; the vocabulary has {} tokens", id, tokenizer.vocab().size()));
  }
  const std::string text = tokenizer.decode(ids, {.show_control = options.special});
  const auto replace = nlohmann::json::error_handler_t::replace;
  write_stdout(options.json ? nlohmann::json{{"text", text}}.dump(-1, ' ', false, replace) + "\n" : text);
  return 0;
}

}  // namespace

std::function<int()> declare_tokenize(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model, kModelText)->required();
  app.add_option("TEXT", options->text, "The text; without it, -f or stdin");
  app.add_option("-f,--file", options->file, "Read the text from a file; -: stdin")->type_name("FILE");
  app.add_flag("--json", options->json, "Print {\"ids\": [...]}");
  app.add_flag("--special", options->special, "Recognize control tokens in the text");
  app.add_flag("--no-bos", options->no_bos, "Do not add the tokens of begin and end");
  return [options] { return tokenize(*options); };
}

std::function<int()> declare_detokenize(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model, kModelText)->required();
  app.add_option("IDS", options->ids, "Token ids; without them, -f or stdin, in any notation");
  app.add_option("-f,--file", options->file, "Read the ids from a file; -: stdin")->type_name("FILE");
  app.add_flag("--json", options->json, "Print {\"text\": ...}");
  app.add_flag("--special", options->special, "Show control tokens");
  return [options] { return detokenize(*options); };
}

}  // namespace minfer::cli
