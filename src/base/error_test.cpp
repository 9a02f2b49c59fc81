// Error: codes, names and formatted messages.
#include "base/error.hpp"

#include <gtest/gtest.h>

namespace minfer {
namespace {

TEST(Error, FailCarriesCodeAndMessage) {
  try {
    fail(ErrorCode::unsupported, "tensor {}: {} bits", "blk.0.attn_q", 7);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_STREQ(error.what(), "tensor blk.0.attn_q: 7 bits");
  }
}

TEST(Error, CheckThrowsInternalOnlyWhenBroken) {
  EXPECT_NO_THROW(check(true, "fine"));
  try {
    check(false, "pages in order");
    FAIL() << "check(false) returned";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal);
    EXPECT_STREQ(error.what(), "internal error: pages in order");
  }
}

TEST(Error, EveryCodeHasItsName) {
  EXPECT_EQ(error_code_name(ErrorCode::invalid_input), "invalid_input");
  EXPECT_EQ(error_code_name(ErrorCode::unsupported), "unsupported");
  EXPECT_EQ(error_code_name(ErrorCode::out_of_memory), "out_of_memory");
  EXPECT_EQ(error_code_name(ErrorCode::io), "io");
  EXPECT_EQ(error_code_name(ErrorCode::device), "device");
  EXPECT_EQ(error_code_name(ErrorCode::cancelled), "cancelled");
  EXPECT_EQ(error_code_name(ErrorCode::internal), "internal");
}

}  // namespace
}  // namespace minfer
