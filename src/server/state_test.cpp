// What /health and refused requests say, from loading to the end.
#include "server/state.hpp"

#include <gtest/gtest.h>

namespace minfer::server {
namespace {

TEST(ServerState, FromLoadingToDraining) {
  ServerState state;
  state.set_progress(0.4239);
  EXPECT_EQ(state.health().status, 503);
  EXPECT_EQ(state.health().body, R"({"status":"loading","progress":0.423})");
  EXPECT_EQ(state.refusal()->code, "model_loading");
  const auto model = std::make_shared<ServedModel>();
  state.set_model(model);
  EXPECT_EQ(state.model(), model);
  EXPECT_EQ(state.health().status, 200);
  EXPECT_EQ(state.health().body, R"({"status":"ok"})");
  EXPECT_FALSE(state.refusal());
  state.set_draining();
  EXPECT_EQ(state.health().body, R"({"status":"draining"})");
  EXPECT_EQ(state.refusal()->status, 503);
  state.set_model(nullptr);
  EXPECT_EQ(state.model(), nullptr);
}

TEST(ServerState, Failures) {
  ServerState state;
  state.set_failed("no memory");
  EXPECT_TRUE(state.has_failed());
  state.set_draining();
  EXPECT_EQ(state.health().body, R"({"status":"failed","message":"no memory"})");
  EXPECT_EQ(state.refusal()->code, "model_failed");
}

TEST(ServerState, ADeviceThatFailsIsToldUntilItWorks) {
  ServerState state;
  state.set_model(std::make_shared<ServedModel>());
  engine::Result result;
  result.error = Error(ErrorCode::invalid_input, "no device");
  state.note_result(result);
  EXPECT_EQ(state.health().status, 200);
  result.error = Error(ErrorCode::device, "lost");
  state.note_result(result);
  EXPECT_EQ(state.health().body, R"({"status":"failed","message":"lost"})");
  EXPECT_FALSE(state.refusal());
  state.note_result({});
  EXPECT_EQ(state.health().status, 200);
}

}  // namespace
}  // namespace minfer::server
