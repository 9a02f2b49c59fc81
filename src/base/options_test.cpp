// The environment is read once: what the process started with stays, whatever is set later.
#include "base/options.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace minfer {
namespace {

TEST(EnvironmentOptions, AreReadOnceAndStay) {
  const EnvironmentOptions& first = environment_options();
  const std::string isa = first.force_isa;
  const std::string fixtures = first.fixtures;
  ASSERT_EQ(setenv("MINFER_FORCE_ISA", "changed later", 1), 0);
  ASSERT_EQ(setenv("MINFER_FIXTURES", "changed later", 1), 0);
  const EnvironmentOptions& second = environment_options();
  EXPECT_EQ(&first, &second);
  EXPECT_EQ(second.force_isa, isa);
  EXPECT_EQ(second.fixtures, fixtures);
}

TEST(EnvironmentOptions, TheModelFolderHasADefault) {
  // The program's environment decides which of the two it is; neither is empty where HOME is set.
  const std::string folder = environment_options().model_dir;
  const std::string suffix = "/.cache/minfer/models";
  const bool is_default = folder.size() > suffix.size() && folder.ends_with(suffix);
  const char* given = std::getenv("MINFER_MODEL_DIR");
  if (given != nullptr && *given != '\0') {
    EXPECT_EQ(folder, given);
  } else if (std::getenv("HOME") != nullptr) {
    EXPECT_TRUE(is_default) << folder;
  }
}

}  // namespace
}  // namespace minfer
