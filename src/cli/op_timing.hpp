// What --op-timing prints to stderr at the end: for each device a table for prompts and one for decoding, a row a kind
// of op, and the sum beside the clock's time of the steps.
#pragma once

#include "cli/model_options.hpp"

namespace minfer::cli {

// On all devices.
void set_op_timing(LoadedModel& loaded, bool on);

// Measures the devices' limits, which takes about a second each, and prints.
void print_op_timing(LoadedModel& loaded);

}  // namespace minfer::cli
