// What becomes of devices that are not there: their reasons are kept, the others run, and options that are wrong are
// told at once. Among the reasons is that a build has no code for its card (cuda/runtime/capabilities.hpp).
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/error.hpp"
#include "devices.hpp"
#include "graph/registry.hpp"

namespace minfer::test {
namespace {

constexpr const char* kNoCode = "built for 9.0; this card is 8.6; build with -DMINFER_CUDA_ARCHITECTURES=86";

graph::DeviceFactory failing(ErrorCode code) {
  return {"cuda",
          [code](const graph::BackendOptions&) -> std::unique_ptr<graph::Backend> { fail(code, "{}", kNoCode); }};
}

graph::DeviceFactory cpu() {
  return device_factories().back();
}

TEST(Devices, OneThatIsNotThereIsPassedOverWithItsReason) {
  for (const ErrorCode code : {ErrorCode::unsupported, ErrorCode::device}) {
    const graph::DeviceFactory factories[] = {failing(code), cpu()};
    const graph::Registry registry(factories, {1, "scalar"});
    ASSERT_EQ(registry.entries().size(), 2U);
    EXPECT_EQ(registry.entries()[0].backend, nullptr);
    EXPECT_EQ(registry.entries()[0].unavailable_reason, kNoCode);
    EXPECT_EQ(registry.available().size(), 1U);
    EXPECT_EQ(registry.preferred().name(), "cpu");
  }
}

TEST(Devices, WithoutAnyTheReasonsAreTold) {
  const graph::DeviceFactory factories[] = {failing(ErrorCode::unsupported)};
  try {
    const graph::Registry registry(factories, {1, {}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.what(), std::string("no device is available; cuda: ") + kNoCode);
  }
}

TEST(Devices, OtherErrorsAreNotPassedOver) {
  const graph::DeviceFactory factories[] = {failing(ErrorCode::out_of_memory), cpu()};
  EXPECT_THROW(graph::Registry(factories, {1, "scalar"}), Error);
  const graph::DeviceFactory alone[] = {cpu()};
  EXPECT_THROW(graph::Registry(alone, {1, "no such set"}), Error);
}

}  // namespace
}  // namespace minfer::test
