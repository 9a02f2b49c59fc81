// FileMap: contents, empty files, moves, advice that changes no byte, and errors that name the path.
#include "base/file_map.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace minfer {
namespace {

// A file in a folder of its own, removed with it.
class FileMapTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/minfer_file_map_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& contents) const {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary) << contents;
    return path;
  }
  static std::string text(const FileMap& map) {
    return {reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size()};
  }
  static ErrorCode error_of(const std::string& path) {
    try {
      FileMap map(path);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
      return error.code();
    }
    ADD_FAILURE() << path << " was mapped";
    return ErrorCode::internal;
  }
  std::filesystem::path folder_;
};

TEST_F(FileMapTest, HasTheFilesBytes) {
  const std::string contents = std::string("GGUF\0\1\2", 7) + std::string(10000, 'x') + "end";
  const std::string path = write("a", contents);
  const FileMap map(path);
  EXPECT_EQ(map.path(), path);
  EXPECT_EQ(text(map), contents);
}

TEST_F(FileMapTest, EmptyFileHasNoBytes) {
  const FileMap map(write("empty", ""));
  EXPECT_TRUE(map.bytes().empty());
}

TEST_F(FileMapTest, AdviceChangesNothing) {
  const std::string contents(3 * 4096 + 5, 'y');
  const FileMap map(write("b", contents));
  map.will_need(0, contents.size());
  map.drop(0, contents.size());
  map.drop(100, 4200);
  map.will_need(contents.size(), 0);
  EXPECT_EQ(text(map), contents);
  EXPECT_THROW(map.will_need(0, contents.size() + 1), Error);
  EXPECT_THROW(map.drop(contents.size() + 1, 0), Error);
}

TEST_F(FileMapTest, MovesKeepTheBytes) {
  FileMap first(write("c", "first"));
  FileMap second(write("d", "second"));
  FileMap moved(std::move(first));
  EXPECT_EQ(text(moved), "first");
  second = std::move(moved);
  EXPECT_EQ(text(second), "first");
}

TEST_F(FileMapTest, ErrorsNameThePath) {
  EXPECT_EQ(error_of(folder_ / "missing"), ErrorCode::io);
  EXPECT_EQ(error_of(folder_), ErrorCode::invalid_input) << "a folder is no regular file";
}

}  // namespace
}  // namespace minfer
