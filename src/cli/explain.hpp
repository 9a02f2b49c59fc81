// What --explain prints to stderr: the devices and why others are not there or get no layers; for each part of the
// model the layout of each kind of weight, its nodes and its memory; and what a step copies between the parts.
#pragma once

#include "engine/runner.hpp"
#include "graph/registry.hpp"
#include "model/model.hpp"

namespace minfer::cli {

void print_explanation(const graph::Registry& registry, const model::Model& model,
                       const engine::RunnerOptions& options);

}  // namespace minfer::cli
