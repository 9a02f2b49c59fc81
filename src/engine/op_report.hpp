// Op times made readable: what each kind of node took of its steps, how fast it read and computed, and which fraction
// of the device's limits that is. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/device_memory.hpp"
#include "graph/op_time.hpp"

namespace minfer::engine {

struct OpReportRow {
  std::string op;  // "linear ffn_down Q6_K"
  int64_t calls = 0;
  double seconds = 0;
  double share = 0;  // of the steps' seconds
  graph::OpWork work;
  double bytes_per_second = 0;
  double ops_per_second = 0;
  // Of the speed that the limits allow: reading all the bytes, or doing all the operations, whichever takes longer.
  double fraction_of_limit = 0;
};

struct OpReport {
  std::string steps_name;  // "decode" or "prompt"
  graph::StepTimes steps;
  double op_seconds = 0;          // the rows' sum
  std::vector<OpReportRow> rows;  // the longest first
};

// One report for decoding steps and one for prompts, those without steps left out.
std::vector<OpReport> report_ops(const graph::OpTimes& times, const graph::DeviceLimits& limits);

}  // namespace minfer::engine
