// Reads the environment once. See options.hpp.
#include "base/options.hpp"

#include <cstdlib>

namespace minfer {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string default_model_dir() {
  const std::string home = variable("HOME");
  return home.empty() ? std::string() : home + "/.cache/minfer/models";
}

EnvironmentOptions read_environment() {
  EnvironmentOptions options;
  options.force_isa = variable("MINFER_FORCE_ISA");
  options.model_dir = variable("MINFER_MODEL_DIR");
  if (options.model_dir.empty()) options.model_dir = default_model_dir();
  options.fixtures = variable("MINFER_FIXTURES");
  options.require_models = variable("MINFER_REQUIRE_MODELS") == "1";
  return options;
}

}  // namespace

const EnvironmentOptions& environment_options() {
  static const EnvironmentOptions options = read_environment();
  return options;
}

}  // namespace minfer
