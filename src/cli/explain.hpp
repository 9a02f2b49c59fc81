// What --explain prints to stderr: the devices and why others are not there, where each kind of node runs, the layout
// of each kind of weight, and the memory plan.
#pragma once

#include "engine/runner.hpp"
#include "graph/registry.hpp"
#include "model/model.hpp"

namespace minfer::cli {

void print_explanation(const graph::Registry& registry, const model::Model& model, const graph::Backend& device,
                       const engine::RunnerOptions& options);

}  // namespace minfer::cli
