// The subcommands of `minfer`: one file and one row of main.cpp's table each. A command declares its options on a CLI11
// subcommand and gives the function that runs when the user chose it. Errors end as one line on stderr and an exit
// code:
//   2 wrong usage or request   3 bad or unsupported file   4 out of memory   5 io   1 device or internal   130
//   cancelled
// A request is all that the user asks with: options, prompt, text, ids and variables, also where they come from a file
// or stdin. Files are models and chat templates.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string_view>

#include "base/error.hpp"

namespace minfer::cli {

struct Command {
  std::string_view name;
  std::string_view summary;
  // Declares the options on `app`; returns the action, which runs after parsing and gives the exit code.
  std::function<int()> (*declare)(CLI::App& app);
};

inline constexpr int kExitUsage = 2;
inline constexpr int kExitFile = 3;
inline constexpr int kExitMemory = 4;
inline constexpr int kExitIo = 5;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitCancelled = 130;  // as a shell reports Ctrl-C; SIGTERM too

// An Error in what the user asked for, rather than in a model or template: exit code 2.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message) : Error(ErrorCode::invalid_input, message) {}
};

int exit_code(const Error& error);

std::function<int()> declare_run(CLI::App& app);
std::function<int()> declare_serve(CLI::App& app);
std::function<int()> declare_plan(CLI::App& app);
std::function<int()> declare_info(CLI::App& app);
std::function<int()> declare_list(CLI::App& app);
std::function<int()> declare_tokenize(CLI::App& app);
std::function<int()> declare_detokenize(CLI::App& app);
std::function<int()> declare_render(CLI::App& app);
std::function<int()> declare_bench(CLI::App& app);
std::function<int()> declare_perplexity(CLI::App& app);

}  // namespace minfer::cli
