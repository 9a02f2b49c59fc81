// POSIX implementation of FileMap. See file_map.hpp.
#include "base/file_map.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace minfer {
namespace {

// Closes the descriptor on every way out of the constructor.
struct FileDescriptor {
  int fd;
  ~FileDescriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

FileMap::FileMap(const std::string& path) : path_(path) {
  // O_NONBLOCK: opening a pipe would wait for a writer before it can be refused below.
  FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) fail(ErrorCode::io, "{}: can't open: {}", path, std::strerror(errno));
  struct stat status{};
  if (::fstat(file.fd, &status) != 0) fail(ErrorCode::io, "{}: can't read its size: {}", path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(ErrorCode::invalid_input, "{}: not a regular file", path);
  size_bytes_ = static_cast<size_t>(status.st_size);
  if (size_bytes_ == 0) return;
  void* mapped = ::mmap(nullptr, size_bytes_, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (mapped == MAP_FAILED) fail(ErrorCode::io, "{}: can't map {} bytes: {}", path, size_bytes_, std::strerror(errno));
  data_ = static_cast<const std::byte*>(mapped);
}

FileMap::~FileMap() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_bytes_);
}

FileMap::FileMap(FileMap&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

FileMap& FileMap::operator=(FileMap&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

namespace {

// Calls madvise on the pages of [offset, offset + size); `inner` keeps only whole pages inside the range.
void advise(const std::byte* data, size_t offset, size_t size, bool inner, int advice) {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = inner ? (offset + page - 1) / page * page : offset / page * page;
  const size_t end = inner ? (offset + size) / page * page : offset + size;
  // Advice only: where the kernel refuses it, reads still give the same bytes.
  if (end > begin) ::madvise(const_cast<std::byte*>(data) + begin, end - begin, advice);
}

}  // namespace

void FileMap::will_need(size_t offset_bytes, size_t size_bytes) const {
  check(offset_bytes <= size_bytes_ && size_bytes <= size_bytes_ - offset_bytes, "FileMap::will_need out of range");
  advise(data_, offset_bytes, size_bytes, false, MADV_WILLNEED);
}

void FileMap::drop(size_t offset_bytes, size_t size_bytes) const {
  check(offset_bytes <= size_bytes_ && size_bytes <= size_bytes_ - offset_bytes, "FileMap::drop out of range");
  advise(data_, offset_bytes, size_bytes, true, MADV_DONTNEED);
}

}  // namespace minfer
