// Detection and choice of the instruction set. See isa.hpp. __builtin_cpu_supports reads CPUID once and also asks
// whether the operating system saves the wide registers.
#include "cpu/runtime/isa.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "base/error.hpp"

namespace minfer::cpu {
namespace {

std::string available_names() {
  std::string names;
  for (const Isa isa : kAllIsas) {
    if (!isa_available(isa)) continue;
    if (!names.empty()) names += ", ";
    names += isa_name(isa);
  }
  return names;
}

#if defined(__x86_64__)
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

bool has_avxvnni() {
  return has_avx2() && __builtin_cpu_supports("avxvnni");
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512bf16");
}

// Linux gives tiles to a process that asks for them (arch_prctl(2), Documentation/arch/x86/xstate.rst), for good.
bool has_amx() {
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  static const bool allowed = has_avx512() && __builtin_cpu_supports("amx-tile") &&
                              __builtin_cpu_supports("amx-int8") &&
                              syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return allowed;
}
#else
bool has_avx2() {
  return false;
}
bool has_avxvnni() {
  return false;
}
bool has_avx512() {
  return false;
}
bool has_amx() {
  return false;
}
#endif

}  // namespace

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return "scalar";
    case Isa::avx2:
      return "avx2";
    case Isa::avxvnni:
      return "avxvnni";
    case Isa::avx512:
      return "avx512";
    case Isa::amx:
      return "amx";
  }
  return "scalar";
}

bool isa_available(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return true;
    case Isa::avx2:
      return has_avx2();
    case Isa::avxvnni:
      return has_avxvnni();
    case Isa::avx512:
      return has_avx512();
    case Isa::amx:
      return has_amx();
  }
  return false;
}

Isa choose_isa(std::string_view forced) {
  Isa best = Isa::scalar;
  for (const Isa isa : kAllIsas) {
    if (isa_name(isa) == forced) {
      if (isa_available(isa)) return isa;
      fail(ErrorCode::unsupported, "instruction set {}: this machine lacks it; available: {}", forced,
           available_names());
    }
    if (isa_available(isa)) best = isa;
  }
  if (forced.empty()) return best;
  fail(ErrorCode::invalid_input, "instruction set \"{}\": unknown; available: {}", forced, available_names());
}

}  // namespace minfer::cpu
