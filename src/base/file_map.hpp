// A read-only memory map of a whole file (POSIX mmap). Views into bytes() stay valid while the FileMap lives. The file
// must not shrink while mapped: the kernel answers a read past its end with SIGBUS. Thread-safe for reading.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace minfer {

class FileMap {
 public:
  // Maps `path`. Errors: io, naming the path and the system's reason; invalid_input if it is no regular file.
  explicit FileMap(const std::string& path);
  ~FileMap();
  FileMap(FileMap&& other) noexcept;
  FileMap& operator=(FileMap&& other) noexcept;
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }

  // Tells the kernel that [offset, offset + size) will be read once, in order (starts read-ahead).
  void will_need(size_t offset_bytes, size_t size_bytes) const;
  // Gives the whole pages inside [offset, offset + size) back; a later read maps them again from the file.
  void drop(size_t offset_bytes, size_t size_bytes) const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace minfer
