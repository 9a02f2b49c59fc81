// Reports of op times by value.
#include "engine/op_report.hpp"

#include <gtest/gtest.h>

namespace minfer::engine {
namespace {

const graph::DeviceLimits kLimits{1e9, 4e9,
                                  2e9};  // a nanosecond a byte, a quarter of one a dot, half of one a multiply-add

TEST(ReportOps, HasSharesRatesAndFractions) {
  graph::OpTimes times;
  times.decode = {2, 2, 10.0};
  times.ops.push_back({graph::Op::add, "", true, 4, 2.0, {100000000, 0, 1000}});
  times.ops.push_back({graph::Op::linear, "ffn_down Q6_K", true, 2, 7.5, {6000000000, 12000000000, 0}});
  times.ops.push_back({graph::Op::attention, "", false, 1, 1.0, {1000000000, 0, 4000000000}});
  times.prompt = {1, 5, 1.5};
  const auto reports = report_ops(times, kLimits);
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].steps_name, "prompt");
  ASSERT_EQ(reports[0].rows.size(), 1u);
  EXPECT_DOUBLE_EQ(reports[0].rows[0].fraction_of_limit, 2.0) << "4 Gop at 2 Gop/s";
  const OpReport& decode = reports[1];
  EXPECT_EQ(decode.steps_name, "decode");
  EXPECT_DOUBLE_EQ(decode.op_seconds, 9.5);
  ASSERT_EQ(decode.rows.size(), 2u);
  EXPECT_EQ(decode.rows[0].op, "linear ffn_down Q6_K");
  EXPECT_DOUBLE_EQ(decode.rows[0].share, 0.75);
  EXPECT_DOUBLE_EQ(decode.rows[0].bytes_per_second, 8e8);
  EXPECT_DOUBLE_EQ(decode.rows[0].ops_per_second, 1.6e9);
  EXPECT_DOUBLE_EQ(decode.rows[0].fraction_of_limit, 0.8) << "6 GB at 1 GB/s; 12 Gop at 4 Gop/s take less";
  EXPECT_EQ(decode.rows[1].op, "add");
  EXPECT_DOUBLE_EQ(decode.rows[1].share, 0.2);
}

TEST(ReportOps, LeavesOutStepsThatWereNot) {
  EXPECT_TRUE(report_ops({}, kLimits).empty());
}

}  // namespace
}  // namespace minfer::engine
