// Writing under a temporary name. See output_file.hpp.
#include "base/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace minfer {
namespace {

constexpr mode_t kOwner = S_IRUSR | S_IWUSR;
constexpr mode_t kEveryone = kOwner | S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH;

}  // namespace

OutputFile::OutputFile(std::string path, Access access)
    : path_(std::move(path)), temporary_(fmt::format("{}.partial-{}", path_, ::getpid())) {
  // O_EXCL: never into somebody else's file.
  fd_ =
      ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, access == Access::owner ? kOwner : kEveryone);
  if (fd_ < 0) fail(ErrorCode::io, "{}: can't create: {}", path_, std::strerror(errno));
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!committed_) ::unlink(temporary_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(ErrorCode::io, "{}: can't write at byte {}: {}", path_, position_, std::strerror(errno));
    position_ += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void OutputFile::sync() {
  if (::fsync(fd_) != 0) fail(ErrorCode::io, "{}: can't force it to the disk: {}", path_, std::strerror(errno));
}

void OutputFile::commit() {
  if (::close(std::exchange(fd_, -1)) != 0) {
    fail(ErrorCode::io, "{}: can't close: {}", path_, std::strerror(errno));
  }
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    fail(ErrorCode::io, "{}: can't rename to {}: {}", temporary_, path_, std::strerror(errno));
  }
  committed_ = true;
}

}  // namespace minfer
