// Everything that minfer takes from the process environment, read once. No other file reads the environment.
#pragma once

#include <string>

namespace minfer {

struct EnvironmentOptions {
  std::string force_isa;  // MINFER_FORCE_ISA: scalar, avx2, avx512; empty: the best that the CPU has
  std::string model_dir;  // MINFER_MODEL_DIR, else ~/.cache/minfer/models: where model names are looked up
  std::string fixtures;   // MINFER_FIXTURES: folder of public test data, for tests
  bool require_models;    // MINFER_REQUIRE_MODELS=1: a test that lacks its model fails instead of skipping
};

// The options of this process; read at the first call, the same ever after. Thread-safe.
const EnvironmentOptions& environment_options();

}  // namespace minfer
