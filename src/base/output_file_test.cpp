// Files that are there whole or not at all.
#include "base/output_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/test_support.hpp"

namespace minfer {
namespace {

namespace fs = std::filesystem;

class OutputFiles : public ::testing::Test {
 protected:
  OutputFiles() {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  ~OutputFiles() override { fs::remove_all(folder_); }

  std::string path() const { return folder_ / "out"; }
  static std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }
  std::string content() const {
    std::ifstream in(path());
    return {std::istreambuf_iterator<char>(in), {}};
  }
  int64_t files() const { return std::distance(fs::directory_iterator(folder_), {}); }

  fs::path folder_ = fs::path(::testing::TempDir()) / "minfer_output_file";
};

TEST_F(OutputFiles, AFileAppearsWholeAndReplacesTheOldOne) {
  std::ofstream(path()) << "old";
  OutputFile file(path(), OutputFile::Access::everyone);
  file.write(bytes("new "));
  file.write(bytes("text"));
  EXPECT_EQ(file.position(), 8U);
  EXPECT_EQ(content(), "old");
  file.sync();
  file.commit();
  EXPECT_EQ(content(), "new text");
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputFiles, WithoutCommitNothingIsLeft) {
  {
    OutputFile file(path(), OutputFile::Access::everyone);
    file.write(bytes("half"));
    EXPECT_EQ(files(), 1);
  }
  EXPECT_EQ(files(), 0);
}

TEST_F(OutputFiles, TheOwnersIsReadByNobodyElse) {
  OutputFile file(path(), OutputFile::Access::owner);
  file.commit();
  struct stat status{};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(OutputFiles, FailuresNameTheFile) {
  const std::string nowhere = folder_ / "no" / "out";
  EXPECT_NE(error_of([&] { OutputFile(nowhere, OutputFile::Access::owner); }).find(nowhere), std::string::npos);
  OutputFile file(path(), OutputFile::Access::everyone);
  fs::create_directory(path());
  EXPECT_NE(error_of([&] { file.commit(); }).find("can't rename to " + path()), std::string::npos);
}

}  // namespace
}  // namespace minfer
