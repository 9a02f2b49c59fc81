// `minfer list`: the models in the cache, a line each: name, size, architecture. A file that is no valid model is
// listed with its error.
#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/options.hpp"
#include "cli/command.hpp"
#include "cli/io.hpp"
#include "cli/model_options.hpp"
#include "gguf/reader.hpp"

namespace minfer::cli {
namespace {

namespace fs = std::filesystem;

std::string describe(const fs::path& path) {
  try {
    const gguf::File file(path.string());
    return printable(file.metadata().find_string("general.architecture").value_or("no architecture"));
  } catch (const Error& error) {
    return fmt::format("invalid: {}", printable(error.what()));
  }
}

std::string list_models(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".gguf") files.push_back(it->path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    fail(ErrorCode::io, "{}: can't list: {}", folder.string(), error.message());
  }
  std::sort(files.begin(), files.end());
  std::string text;
  for (const fs::path& file : files) {
    std::error_code size_error;
    const auto bytes = fs::file_size(file, size_error);
    if (size_error) fail(ErrorCode::io, "{}: can't read its size: {}", file.string(), size_error.message());
    text += fmt::format("{:<32} {:9.1f} MB  {}\n", printable(file.stem().string()), static_cast<double>(bytes) / 1e6,
                        describe(file));
  }
  return text;
}

}  // namespace

std::function<int()> declare_list(CLI::App&) {
  return [] {
    const fs::path folder = environment_options().model_dir;
    if (folder.empty()) fail(ErrorCode::io, "{}", kNoCacheText);
    const std::string text = list_models(folder);
    if (text.empty()) say("minfer: no models in {}\n", folder.string());
    write_stdout(text);
    return 0;
  };
}

}  // namespace minfer::cli
