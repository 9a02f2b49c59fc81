// What --op-timing prints to stderr at the end: for each device a table for prompts and one for decoding, a row a kind
// of op, and the sum beside the clock's time of the steps.
#pragma once

#include <string_view>

#include "cli/model_options.hpp"

namespace minfer::cli {

// On all devices.
void set_op_timing(LoadedModel& loaded, bool on);

// Measures the devices' limits, which takes about a second each, and prints; `what` says in the headings which model it
// is, where there are several.
void print_op_timing(LoadedModel& loaded, std::string_view what = {});

}  // namespace minfer::cli
