// Input, output and progress of the command line. See io.hpp.
// Plain C streams: a failed write is seen at once, and bytes pass as they are.
#include "cli/io.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/error.hpp"
#include "base/utf8.hpp"
#include "cli/command.hpp"
#include "cli/interrupt.hpp"

namespace minfer::cli {

namespace {

// What a file that is too large holds, as far as it can be known.
std::string size_text(const std::string& path, int64_t max_bytes) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  return error ? fmt::format("more than {}", max_bytes) : fmt::format("{}", bytes);
}

}  // namespace

std::string read_input(const std::string& path, int64_t max_bytes) {
  const bool from_stdin = path == "-";
  const auto close = [&](std::FILE* file) {
    if (!from_stdin) std::fclose(file);
  };
  const std::unique_ptr<std::FILE, decltype(close)> file(from_stdin ? stdin : std::fopen(path.c_str(), "rb"), close);
  if (file == nullptr) fail(ErrorCode::io, "{}: can't open: {}", path, std::strerror(errno));
  std::string text;
  char buffer[1 << 16];
  while (const size_t count = std::fread(buffer, 1, sizeof buffer, file.get())) {
    text.append(buffer, count);
    if (static_cast<int64_t>(text.size()) > max_bytes) {
      throw UsageError(
          fmt::format("{}: {} bytes; at most {} are read here", path, size_text(path, max_bytes), max_bytes));
    }
  }
  if (std::ferror(file.get()) != 0 && interrupted()) fail(ErrorCode::cancelled, "cancelled while reading {}", path);
  if (std::ferror(file.get()) != 0) fail(ErrorCode::io, "{}: can't read: {}", path, std::strerror(errno));
  return text;
}

std::string read_template(const std::string& path) {
  try {
    return read_input(path, kMaxTemplateBytes);
  } catch (const UsageError& error) {
    fail(ErrorCode::invalid_input, "{}", error.what());
  }
}

void check_utf8(std::string_view text, std::string_view what) {
  const size_t malformed = find_malformed_utf8(text);
  if (malformed == std::string_view::npos) return;
  throw UsageError(fmt::format("{} is not UTF-8: byte 0x{:02X} at offset {} belongs to no character", what,
                               static_cast<unsigned char>(text[malformed]), malformed));
}

std::string printable(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text, at);
    const std::string_view bytes = text.substr(at, step.size_bytes);
    at += step.size_bytes;
    const bool control = step.character < 0x20 || (step.character >= 0x7F && step.character < 0xA0);
    if (step.status == Utf8Status::whole && !control) {
      out += bytes;
    } else if (bytes == "\n" || bytes == "\t" || bytes == "\r") {
      out += bytes == "\n" ? "\\n" : bytes == "\t" ? "\\t" : "\\r";
    } else {
      for (const char byte : bytes) out += fmt::format("\\x{:02X}", static_cast<unsigned char>(byte));
    }
  }
  return out;
}

namespace {

void write_all(std::FILE* file, std::string_view text, const std::string& name) {
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size() || std::fflush(file) != 0) {
    if (errno == EINTR && interrupted()) fail(ErrorCode::cancelled, "cancelled while writing to {}", name);
    fail(ErrorCode::io, "{}: can't write: {}", name, std::strerror(errno));
  }
}

}  // namespace

void write_stdout(std::string_view text) {
  write_all(stdout, text, "standard output");
}

void write_file(const std::string& path, std::string_view text) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
  if (file == nullptr) fail(ErrorCode::io, "{}: can't create: {}", path, std::strerror(errno));
  write_all(file.get(), text, path);
}

void write_stderr(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stderr) == text.size()) std::fflush(stderr);
}

bool stdin_is_terminal() {
  return ::isatty(STDIN_FILENO) == 1;
}

void ProgressLine::update(int64_t done, int64_t total) {
  if (::isatty(STDERR_FILENO) != 1 || total <= 0) return;
  const int64_t percent = done * 100 / total;
  if (percent == shown_percent_) return;
  shown_percent_ = percent;
  say("\r{} {}%", label_, percent);
  std::fflush(stderr);
}

void ProgressLine::clear() {
  if (shown_percent_ < 0) return;
  say("\r\033[K");
  std::fflush(stderr);
  shown_percent_ = -1;
}

}  // namespace minfer::cli
