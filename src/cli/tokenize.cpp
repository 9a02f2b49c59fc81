// `minfer tokenize MODEL [TEXT | -f FILE]` and `minfer detokenize MODEL IDS...`: the vocabulary of a model file at
// work, from its header alone.
#include <fmt/ranges.h>

#include <algorithm>
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
  std::string pre;
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
  const tokenizer::Tokenizer tokenizer(model::read_vocab(file, options.pre));
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

// Ids in text: whole numbers with blanks or one comma between them, or such a list in brackets, or {"ids": [list]}.
// Anything else is refused, so that no part of the input is passed over.
class IdParser {
 public:
  explicit IdParser(std::string_view text) : text_(text) {}

  std::vector<int32_t> parse() {
    const bool in_object = take("{");
    if (in_object) {
      require("\"ids\"");
      require(":");
    }
    const bool in_brackets = take("[");
    if (in_object && !in_brackets) fail_here();
    parse_list(in_brackets);
    if (in_brackets) require("]");
    if (in_object) require("}");
    skip_blanks();
    if (at_ != text_.size()) fail_here();
    return std::move(ids_);
  }

 private:
  static constexpr std::string_view kBlanks = " \t\r\n";
  static constexpr size_t kShownBytes = 24;

  void skip_blanks() { at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size()); }

  bool take(std::string_view word) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  void require(std::string_view word) {
    if (!take(word)) fail_here();
  }

  void parse_list(bool in_brackets) {
    skip_blanks();
    if (at_ == text_.size() || (in_brackets && text_[at_] == ']')) return;
    while (true) {
      parse_id();
      const bool comma = take(",");
      skip_blanks();
      if (comma) continue;
      if (at_ == text_.size() || text_[at_] == ']') return;
    }
  }

  void parse_id() {
    skip_blanks();
    const char* const begin = text_.data() + at_;
    const char* const end = text_.data() + text_.size();
    int32_t id = 0;
    const auto [stop, error] = std::from_chars(begin, end, id);
    // "1.5" and "1e3" begin with a number and are none.
    const bool whole = stop == end || std::string_view(" \t\r\n,]").find(*stop) != std::string_view::npos;
    if (error == std::errc::result_out_of_range && whole) fail_here("a token id does not fit in 32 bits");
    if (error != std::errc() || !whole) fail_here();
    ids_.push_back(id);
    at_ += static_cast<size_t>(stop - begin);
  }

  [[noreturn]] void fail_here(std::string_view what = {}) const {
    const size_t end = std::min(text_.find_first_of(" \t\r\n,]", at_ + 1), text_.size());
    std::string found =
        at_ == text_.size() ? "the end" : fmt::format("'{}'", text_.substr(at_, std::min(end - at_, kShownBytes)));
    if (end > at_ + kShownBytes) found += "...";
    throw UsageError(
        fmt::format("ids: at offset {} found {}; {}", at_, found,
                    what.empty() ? "expected token ids such as 1 2 3, [1, 2, 3] or {\"ids\": [1, 2, 3]}" : what));
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<int32_t> ids_;
};

int detokenize(const Options& options) {
  const gguf::File file(find_model(options.model));
  const tokenizer::Tokenizer tokenizer(model::read_vocab(file, options.pre));
  std::string input = fmt::format("{}", fmt::join(options.ids, " "));
  if (!options.ids.empty() && !options.file.empty()) throw UsageError("give IDS or -f FILE, not both");
  if (options.ids.empty()) input = read_input(options.file.empty() ? "-" : options.file);
  const auto ids = IdParser(input).parse();
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
  add_pre_option(app, options->pre);
  app.add_flag("--special", options->special, "Recognize control tokens in the text");
  app.add_flag("--no-bos", options->no_bos, "Do not add the tokens of begin and end");
  return [options] { return tokenize(*options); };
}

std::function<int()> declare_detokenize(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model, kModelText)->required();
  app.add_option("IDS", options->ids, "Token ids; without them, -f or stdin, also as JSON");
  app.add_option("-f,--file", options->file, "Read the ids from a file; -: stdin")->type_name("FILE");
  app.add_flag("--json", options->json, "Print {\"text\": ...}");
  add_pre_option(app, options->pre);
  app.add_flag("--special", options->special, "Show control tokens");
  return [options] { return detokenize(*options); };
}

}  // namespace minfer::cli
