// What --op-timing prints to stderr at the end: a table for prompts and one for decoding, a row a kind of op, and the
// sum beside the clock's time of the steps.
#pragma once

#include <string>

#include "graph/backend.hpp"

namespace minfer::cli {

std::string op_timing_text(const graph::OpTimes& times, const graph::DeviceLimits& limits);

// Measures the device's limits, which takes about a second, and prints.
void print_op_timing(graph::Backend& device);

}  // namespace minfer::cli
