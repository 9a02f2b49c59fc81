// Parses one GGUF file from memory, private to the room: File (reader.hpp) calls it for a mapped file and for bytes in
// memory alike, so that the fuzzer reaches the very code that files do. Touches the header region only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gguf/reader.hpp"

namespace minfer::gguf {

struct ParsedPart {
  uint32_t version = 0;
  std::vector<Value> values;        // distinct keys
  std::vector<TensorInfo> tensors;  // no two overlap; names may repeat; part and map are left to the caller
};

// `source` names the file in errors; the result has views into `bytes`. Errors: as in reader.hpp.
ParsedPart parse_part(const std::string& source, std::span<const std::byte> bytes);

}  // namespace minfer::gguf
