// Names and choice of instruction sets; what is available is checked against the compiler's view of this machine.
#include "cpu/runtime/isa.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"

namespace minfer::cpu {
namespace {

ErrorCode code_of(std::string_view forced) {
  try {
    choose_isa(forced);
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("scalar")) << "lists what is available";
    return error.code();
  }
  return ErrorCode::internal;
}

TEST(Isa, ScalarIsAlwaysAvailableAndCanBeForced) {
  EXPECT_TRUE(isa_available(Isa::scalar));
  EXPECT_EQ(choose_isa("scalar"), Isa::scalar);
}

TEST(Isa, EmptyChoosesTheBest) {
  const Isa best = choose_isa("");
  EXPECT_TRUE(isa_available(best));
  for (const Isa isa : kAllIsas) {
    if (isa > best) {
      EXPECT_FALSE(isa_available(isa)) << isa_name(isa);
    }
  }
}

TEST(Isa, NamesRoundTripOrSayWhatIsMissing) {
  for (const Isa isa : kAllIsas) {
    if (isa_available(isa)) {
      EXPECT_EQ(choose_isa(isa_name(isa)), isa);
    } else {
      EXPECT_EQ(code_of(isa_name(isa)), ErrorCode::unsupported);
    }
  }
  EXPECT_EQ(code_of("avx1024"), ErrorCode::invalid_input);
  EXPECT_EQ(code_of("AVX2"), ErrorCode::invalid_input);
}

}  // namespace
}  // namespace minfer::cpu
