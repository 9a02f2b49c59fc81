// Fuzzes the GGUF reader: any bytes either open or throw minfer::Error, and what opens can be read without leaving the
// bytes. An input is one file; one that starts with 'S' is a split set of two: 'S', u32 length of part 1, the parts.
// Seeds: fuzz/corpus/gguf (scripts/make_gguf_corpus.py).
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "gguf/reader.hpp"

namespace {

using minfer::gguf::File;
using minfer::gguf::MemoryPart;

// A value that the compiler must compute, so that every byte of a view is read.
volatile uint64_t checksum_sink;

uint64_t checksum(const void* data, size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  uint64_t sum = 0;
  for (size_t i = 0; i < size; ++i) sum += bytes[i];
  return sum;
}

// Calls a getter; a wrong type is its business to refuse.
template <class Getter>
void attempt(Getter&& getter) {
  try {
    getter();
  } catch (const minfer::Error&) {
  }
}

void read_all(const File& file) {
  uint64_t sum = 0;
  const auto& metadata = file.metadata();
  for (const auto& value : metadata.values()) {
    sum += checksum(value.payload.data(), value.payload.size());
    attempt([&] { sum += *metadata.find_u32(value.key); });
    attempt([&] { sum += static_cast<uint64_t>(*metadata.find_i64(value.key)); });
    attempt([&] { sum += *metadata.find_f32(value.key) > 0; });
    attempt([&] { sum += *metadata.find_bool(value.key); });
    attempt([&] {
      const auto text = *metadata.find_string(value.key);
      sum += checksum(text.data(), text.size());
    });
    attempt([&] {
      for (const auto text : metadata.require_strings(value.key)) sum += checksum(text.data(), text.size());
    });
    attempt([&] { sum += metadata.find_i32_array(value.key)->size(); });
    attempt([&] { sum += metadata.find_f32_array(value.key)->size(); });
  }
  for (const auto& tensor : file.tensors()) sum += checksum(tensor.data, tensor.bytes);
  checksum_sink = sum;
}

std::vector<MemoryPart> parts_of(std::span<const std::byte> input) {
  constexpr size_t kSplitHeader = 5;
  if (input.size() < kSplitHeader || input[0] != std::byte{'S'}) return {{"fuzz.gguf", input}};
  uint32_t first = 0;
  std::memcpy(&first, input.data() + 1, sizeof(first));
  const auto body = input.subspan(kSplitHeader);
  const size_t cut = std::min<size_t>(first, body.size());
  return {{"fuzz-00001-of-00002.gguf", body.first(cut)}, {"fuzz-00002-of-00002.gguf", body.subspan(cut)}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    read_all(File::from_memory(parts_of(std::as_bytes(std::span(data, size)))));
  } catch (const minfer::Error& error) {
    // An invariant of the reader is broken if a file can reach it.
    if (error.code() == minfer::ErrorCode::internal) __builtin_trap();
  }
  return 0;
}
