// The tier of a card, and whether there is code for it. See capabilities.hpp.
#include "cuda/runtime/capabilities.hpp"

#include <charconv>
#include <optional>
#include <string_view>

#include "base/error.hpp"

namespace minfer::cuda {
namespace {

// One of the architectures that a build is for.
struct Architecture {
  int number = 0;            // 90 for compute capability 9.0
  char suffix = 0;           // 'a', 'f' or none
  bool intermediate = true;  // compiled at start for newer cards
};

// nullopt for words such as "native", which name no capability.
std::optional<Architecture> parse_architecture(std::string_view text) {
  Architecture result;
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto [rest, error] = std::from_chars(begin, end, result.number);
  if (error != std::errc()) return std::nullopt;
  std::string_view left(rest, static_cast<size_t>(end - rest));
  if (left.starts_with('a') || left.starts_with('f')) {
    result.suffix = left.front();
    left.remove_prefix(1);
  }
  result.intermediate = left != "-real";
  return result;
}

bool runs_on(const Architecture& built, int major, int minor) {
  const int card = major * 10 + minor;
  // What kernels do on 9.0 and up (chained launches, bulk copies) is in no code for less, and the products of 9.x are
  // in that for 9.0a only.
  if (major >= 9 && built.number < 90) return false;
  if (major == 9) return built.number == card && built.suffix == 'a';
  if (built.suffix == 'a') return built.number == card;
  if (built.number > card) return false;
  const bool same_major = built.number / 10 == major;
  return same_major || (built.intermediate && built.suffix != 'f');
}

}  // namespace

void check_built_for(std::string_view built, int major, int minor) {
  std::string names;
  for (std::string_view rest = built; !rest.empty();) {
    const size_t comma = rest.find(',');
    const std::optional<Architecture> one = parse_architecture(rest.substr(0, comma));
    if (!one || runs_on(*one, major, minor)) return;
    names += fmt::format("{}{}.{}", names.empty() ? "" : ", ", one->number / 10, one->number % 10);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  fail(ErrorCode::unsupported, "built for {}; this card is {}.{}; build with -DMINFER_CUDA_ARCHITECTURES={}{}{}", names,
       major, minor, major, minor, major == 9 ? "a" : "");
}

Tier choose_tier(const std::string& name, int major, int minor) {
  if (major < 8) {
    fail(ErrorCode::unsupported, "{} has compute capability {}.{}; minfer's kernels need 8.0 or newer", name, major,
         minor);
  }
  return major >= 9 ? Tier::hopper : Tier::ampere;
}

}  // namespace minfer::cuda
