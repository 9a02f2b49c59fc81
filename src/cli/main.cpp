// The program `minfer`: chooses the subcommand, installs the log sink and the answer to Ctrl-C and SIGTERM, and turns
// errors into one line and an exit code. See command.hpp.
#include <cstdio>
#include <exception>
#include <new>

#include "base/log.hpp"
#include "cli/command.hpp"
#include "cli/interrupt.hpp"
#include "cli/io.hpp"
#include "cli/usage.hpp"

namespace minfer::cli {
namespace {

constexpr Command kCommands[] = {
    {"run", "Answer a prompt, streaming the text to stdout", declare_run},
    {"serve", "Serve a model over HTTP, as OpenAI's API does", declare_serve},
    {"plan", "Say what memory a model will take", declare_plan},
    {"info", "Show what a model file holds", declare_info},
    {"list", "List the models in the cache", declare_list},
    {"tokenize", "Text to token ids", declare_tokenize},
    {"detokenize", "Token ids to text", declare_detokenize},
    {"render", "Render a chat template", declare_render},
    {"bench", "Measure prefill and decode speed", declare_bench},
    {"perplexity", "Measure the perplexity of a text", declare_perplexity},
};

constexpr const char* kFooter =
    "MODEL is a path, or the name of a model in the cache: ~/.cache/minfer/models, or\n"
    "the folder that MINFER_MODEL_DIR names. `minfer COMMAND --help` shows the options.\n"
    "Exit codes: 2 wrong usage, 3 bad or unsupported file, 4 out of memory, 5 input or\n"
    "output failed, 130 stopped by Ctrl-C or SIGTERM.";

void log_to_stderr(LogLevel level, std::string_view message) {
  if (level == LogLevel::debug) return;
  say("minfer: {}{}\n",
      level == LogLevel::info      ? ""
      : level == LogLevel::warning ? "warning: "
                                   : "error: ",
      printable(message));
}

int run_command(int argc, char** argv) {
  CLI::App app("minfer runs GGUF language models on this machine.", "minfer");
  app.formatter(help_formatter());
  app.footer(kFooter);
  app.require_subcommand(1);
  app.set_version_flag("--version", "minfer " MINFER_VERSION);
  std::function<int()> chosen;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(std::string(command.name), std::string(command.summary));
    sub->group("Commands");
    const auto action = command.declare(*sub);
    sub->callback([&chosen, action] { chosen = action; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {
    return app.exit(request);  // --help, --version
  } catch (const CLI::ParseError& error) {
    throw UsageError(parse_error_text(app, error));
  }
  return chosen();
}

}  // namespace

int exit_code(const Error& error) {
  if (dynamic_cast<const UsageError*>(&error) != nullptr) return kExitUsage;
  switch (error.code()) {
    case ErrorCode::invalid_input:
    case ErrorCode::unsupported:
      return kExitFile;
    case ErrorCode::out_of_memory:
      return kExitMemory;
    case ErrorCode::io:
      return kExitIo;
    case ErrorCode::cancelled:
      return kExitCancelled;
    case ErrorCode::busy:
    case ErrorCode::device:
    case ErrorCode::internal:
      return kExitFailure;
  }
  return kExitFailure;
}

}  // namespace minfer::cli

int main(int argc, char** argv) {
  using namespace minfer;
  set_log_sink(cli::log_to_stderr);
  cli::install_interrupt_handler();
  try {
    return cli::run_command(argc, argv);
  } catch (const Error& error) {
    cli::say("minfer: {}\n", cli::printable(error.what()));
    return cli::exit_code(error);
  } catch (const std::bad_alloc&) {
    cli::say("minfer: out of memory\n");
    return cli::kExitMemory;
  } catch (const std::exception& error) {
    cli::say("minfer: internal error: {}\n", cli::printable(error.what()));
    return cli::kExitFailure;
  }
}
