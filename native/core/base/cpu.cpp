#include "core/base/cpu.hpp"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace headrace {
namespace {

Cpu examine() noexcept {
    Cpu cpu;
#if defined(HEADRACE_X86)
    __builtin_cpu_init();
    cpu.bmi2 = __builtin_cpu_supports("bmi2") != 0;
    cpu.avx2 = __builtin_cpu_supports("avx2") != 0;
    const bool slow = __builtin_cpu_is("znver1") || __builtin_cpu_is("znver2") || __builtin_cpu_is("bdver4");
    cpu.pext = cpu.bmi2 && cpu.avx2 && !slow;
    cpu.vbmi = __builtin_cpu_supports("avx512vbmi2") != 0 && __builtin_cpu_supports("avx512vbmi") != 0 &&
               __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
               __builtin_cpu_supports("avx512vl") != 0;
    cpu.ifma = cpu.vbmi && __builtin_cpu_supports("avx512ifma") != 0;
    cpu.fold = cpu.vbmi && __builtin_cpu_supports("vpclmulqdq") != 0;
    cpu.pclmul = __builtin_cpu_supports("pclmul") != 0;
    cpu.sse42 = __builtin_cpu_supports("sse4.2") != 0;
#elif defined(__aarch64__) && defined(__APPLE__)
    cpu.crc = true;
#elif defined(__aarch64__) && defined(__linux__)
    cpu.crc = (getauxval(AT_HWCAP) & (1UL << 7)) != 0; // HWCAP_CRC32
#endif
    return cpu;
}

} // namespace

const Cpu this_cpu = examine();

} // namespace headrace
