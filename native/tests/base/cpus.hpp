#pragma once

#include <vector>

#include "core/base/cpu.hpp"

namespace headrace::testing {

/// CPU variants to test on this machine: all its features, none of them, each one alone, and some together.
inline std::vector<Cpu> runnable_cpus() {
    std::vector<Cpu> cpus = {this_cpu, Cpu{}};
    for (const auto feature : {&Cpu::bmi2, &Cpu::avx2, &Cpu::pclmul, &Cpu::sse42, &Cpu::crc, &Cpu::pext, &Cpu::vbmi,
                               &Cpu::fold, &Cpu::ifma}) {
        if (!(this_cpu.*feature)) continue;
        Cpu cpu;
        cpu.*feature = true;
        cpus.push_back(cpu);
    }
    if (this_cpu.avx2 && this_cpu.bmi2) cpus.push_back({.bmi2 = true, .avx2 = true}); // with a slow PEXT
    Cpu without_vbmi = this_cpu;                                                      // PEXT without the larger vectors
    without_vbmi.vbmi = false;
    cpus.push_back(without_vbmi);
    return cpus;
}

} // namespace headrace::testing
