// How fast text becomes ids, on one thread: MB a second of each text file, fresh (a tokenizer that has seen nothing)
// and warm (the best of several runs, words cached), and how long a vocabulary takes from the file's header to the
// first text. Files are cut at line ends into documents of about 4 KB, as requests have them; --whole takes a file at
// once. Usage: tokenizer_bench MODEL.gguf TEXT... [--whole] tokenizer_bench.py measures the Python package `tokenizers`
// on the same files and documents, also on one thread.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "gguf/reader.hpp"
#include "model/vocab.hpp"
#include "tokenizer/tokenizer.hpp"

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kDocumentBytes = 4096;
constexpr int kRuns = 5;
constexpr double kBytesPerMb = 1e6;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<std::string_view> documents(std::string_view text, bool whole) {
  if (whole) return {text};
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t line_end = text.find('\n', std::min(begin + kDocumentBytes, text.size()));
    const size_t end = line_end == std::string_view::npos ? text.size() : line_end + 1;
    parts.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return parts;
}

void measure(const minfer::gguf::File& file, const std::string& path, bool whole) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (text.empty()) minfer::fail(minfer::ErrorCode::io, "no text in {}", path);
  const auto parts = documents(text, whole);
  const minfer::tokenizer::Tokenizer tokenizer(minfer::model::read_vocab(file));
  std::vector<double> rates;
  size_t ids = 0;
  for (int run = 0; run <= kRuns; ++run) {
    ids = 0;
    const auto start = Clock::now();
    for (const std::string_view part : parts) ids += tokenizer.encode(part, {.parse_special = true}).size();
    rates.push_back(static_cast<double>(text.size()) / kBytesPerMb / seconds_since(start));
  }
  std::printf("%-24s %9zu bytes %8zu ids   fresh %7.2f MB/s   warm %7.2f MB/s\n",
              std::filesystem::path(path).filename().c_str(), text.size(), ids, rates[0],
              *std::max_element(rates.begin() + 1, rates.end()));
}

double load_seconds(const std::string& path) {
  const auto start = Clock::now();
  const minfer::gguf::File file(path);
  const minfer::tokenizer::Tokenizer tokenizer(minfer::model::read_vocab(file));
  const auto ids = tokenizer.encode("first");
  return ids.empty() ? 0 : seconds_since(start);
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<std::string> paths(arguments + std::min(count, 1), arguments + count);
  const bool whole = std::erase(paths, "--whole") > 0;
  if (paths.size() < 2) {
    std::fputs("usage: tokenizer_bench MODEL.gguf TEXT... [--whole]\n", stderr);
    return 2;
  }
  try {
    double best = load_seconds(paths[0]);
    for (int run = 1; run < kRuns; ++run) best = std::min(best, load_seconds(paths[0]));
    const minfer::gguf::File file(paths[0]);
    std::printf("load: %.1f ms\n", best * 1e3);
    for (size_t index = 1; index < paths.size(); ++index) measure(file, paths[index], whole);
  } catch (const minfer::Error& error) {
    std::fprintf(stderr, "tokenizer_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
