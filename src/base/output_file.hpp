// A file that is there whole or not at all: written under a temporary name in the folder of its path, removed unless
// commit() renames it. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace minfer {

class OutputFile {
 public:
  enum class Access { everyone, owner };  // who may read it, as far as the umask lets them

  // Errors of all members: io, naming `path` and the system's reason.
  OutputFile(std::string path, Access access);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  uint64_t position() const { return position_; }
  void write(std::span<const std::byte> bytes);
  // What was written is on the disk, whatever happens to the machine.
  void sync();
  // Gives it its name; the last call.
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  int fd_ = -1;
  uint64_t position_ = 0;
  bool committed_ = false;
};

}  // namespace minfer
