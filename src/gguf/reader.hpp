// Reads GGUF files: maps them, checks every count, offset, size, type and length before its use, and gives views.
// Tensor data is never copied and not touched while opening. A split set (NAME-00001-of-0000N.gguf) opens by its first
// part, as one File: metadata from part 1, tensors of all parts in order. Versions 2 and 3; see format.hpp for the
// layout.
//
// Every error is a minfer::Error that names the file, the key or tensor, the byte offset, what was found and what was
// expected: invalid_input for a file that is cut or wrong, unsupported for version 1, a big-endian file, an unknown
// element type or arrays nested too deeply, io from the system. A known element type that minfer can't compute opens.
// The File owns its maps; TensorInfo and metadata views are valid while it lives, also after it was moved. Thread-safe
// for reading. The file must not shrink while it is open (see base/file_map.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_map.hpp"
#include "gguf/metadata.hpp"
#include "tensor/dtype.hpp"

namespace minfer::gguf {

struct TensorInfo {
  std::string name;
  tensor::DType dtype = tensor::DType::f32;
  int dims = 1;                              // dimensions that the file states
  std::array<int64_t, kMaxDims> shape = {};  // shape[0] is the fastest (a row's elements); 1 past dims
  const std::byte* data = nullptr;           // `bytes` bytes, aligned to general.alignment relative to the file's start
  size_t bytes = 0;
  int part = 0;                  // index of the file of a split set, 0-based
  const FileMap* map = nullptr;  // that file, for will_need and drop; nullptr when read from memory
  size_t offset_bytes = 0;       // of data from the start of that file
};

// One file's bytes in memory, with the name that errors give it.
struct MemoryPart {
  std::string name;
  std::span<const std::byte> bytes;
};

class File {
 public:
  // Opens a file, or all parts of a split set by its part 1; another part is an error that names part 1.
  explicit File(const std::string& path);
  // The same for bytes that the caller owns and keeps: all parts of a set in order.
  static File from_memory(std::span<const MemoryPart> parts);

  File(File&&) = default;
  File& operator=(File&&) = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const Metadata& metadata() const { return metadata_; }
  // In file order, part by part.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // nullptr if there is none of that name.
  const TensorInfo* find_tensor(std::string_view name) const;
  // Format version of part 1, and the paths of all parts.
  uint32_t version() const { return version_; }
  const std::vector<std::string>& part_names() const { return part_names_; }

 private:
  File() = default;
  void add_part(const std::string& name, std::span<const std::byte> bytes, const FileMap* map);
  void check_first_part(const std::string& name);
  void check_later_part(const std::string& name, const Metadata& metadata) const;
  void index_tensors();

  std::vector<std::unique_ptr<FileMap>> maps_;
  std::vector<std::string> part_names_;
  Metadata metadata_{"", {}};
  std::vector<TensorInfo> tensors_;
  std::map<std::string_view, size_t> tensor_index_;  // name -> index in tensors_
  uint32_t version_ = 0;
  int64_t split_count_ = 1;  // parts that part 1 announces
};

}  // namespace minfer::gguf
