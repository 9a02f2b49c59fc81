// The architectures that minfer runs: one row each.
#include <array>

#include "base/error.hpp"
#include "model/arch.hpp"

namespace minfer::model {

std::span<const Architecture> architectures() {
  static const std::array kRows = {
      kLlama, kQwen2,   kQwen3, kQwen2Moe,   kQwen3Moe, kGemma3,  kGemma,   kGemma2, kMistral3,  kPhi3, kGranite,
      kOlmo2, kSmolLm3, kGlm4,  kStarCoder2, kStableLm, kCohere2, kExaone4, kGptOss, kDeepSeek2, kBert, kNomicBert};
  return kRows;
}

const Architecture& find_architecture(std::string_view name, std::string_view file) {
  std::string known;
  for (const Architecture& row : architectures()) {
    if (row.name == name) return row;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  fail(ErrorCode::unsupported, "{}: architecture '{}' is not supported; supported are: {}", file, name, known);
}

}  // namespace minfer::model
