#include "core/base/cpu.hpp"

#include "base/cpus.hpp"
#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

int main() {
    check(Cpu{} == Cpu{false, false, false, false, false, false, false, false});
#if defined(HEADRACE_X86)
    check(!this_cpu.crc);
    check((this_cpu.avx2 && this_cpu.bmi2) || !this_cpu.pext);
    check(this_cpu.vbmi || !this_cpu.fold);
    check(this_cpu.sse42 || !this_cpu.avx2, "every processor with AVX2 has SSE 4.2");
#elif defined(__aarch64__)
    check(this_cpu == Cpu{.crc = this_cpu.crc});
#endif
    const std::vector<Cpu> cpus = runnable_cpus();
    check(cpus[0] == this_cpu && cpus[1] == Cpu{});
    for (const Cpu& cpu : cpus) // Only features of this machine.
        check((this_cpu.bmi2 || !cpu.bmi2) && (this_cpu.avx2 || !cpu.avx2) && (this_cpu.pclmul || !cpu.pclmul) &&
              (this_cpu.sse42 || !cpu.sse42) && (this_cpu.crc || !cpu.crc) && (this_cpu.pext || !cpu.pext) &&
              (this_cpu.vbmi || !cpu.vbmi) && (this_cpu.fold || !cpu.fold));
}
