// The instruction sets that the CPU kernels are written for, and the choice of one at run time. Each has its own folder
// under kernels/ and its own namespace (minfer::cpu::scalar, avx2, avxvnni, avx512, amx). The scalar kernels take f32
// activations and are the oracle of all others. A set that changes some families alone shares the others (is_avx2,
// is_avx512).
#pragma once

#include <array>
#include <string_view>

namespace minfer::cpu {

enum class Isa {
  scalar,
  avx2,     // AVX2, FMA, F16C
  avxvnni,  // AVX2's and AVX-VNNI: products of quantized weights
  avx512,   // AVX-512 F BW VL DQ VBMI VNNI BF16
  amx,      // AVX-512's and AMX's tiles of 8-bit numbers: prompts' products of quantized weights
};
// Worst first: the last available one is the best.
inline constexpr std::array kAllIsas = {Isa::scalar, Isa::avx2, Isa::avxvnni, Isa::avx512, Isa::amx};

// Whether a family that has nothing of its own for avxvnni takes AVX2's kernels.
constexpr bool is_avx2(Isa isa) {
  return isa == Isa::avx2 || isa == Isa::avxvnni;
}

// The same for amx and AVX-512's.
constexpr bool is_avx512(Isa isa) {
  return isa == Isa::avx512 || isa == Isa::amx;
}

std::string_view isa_name(Isa isa);  // "scalar", "avx2", "avxvnni", "avx512", "amx"
// Whether this machine and this build can execute `isa`, and for amx whether Linux lets this process use tiles.
bool isa_available(Isa isa);
// The one to use: `forced` by name ("" for the best available). Errors: invalid_input for an unknown name, unsupported
// for one that this machine lacks; both list what is available.
Isa choose_isa(std::string_view forced);

}  // namespace minfer::cpu
