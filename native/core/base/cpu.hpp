#pragma once

// Code that is compiled for several kinds of processor is inlined into one function for each of them.
#if defined(__GNUC__) || defined(__clang__)
#define HEADRACE_INLINE __attribute__((always_inline)) inline
#define HEADRACE_INLINE_LAMBDA __attribute__((always_inline))
#elif defined(_MSC_VER)
#define HEADRACE_INLINE __forceinline
#define HEADRACE_INLINE_LAMBDA
#endif

// Where a function may use instructions of x86 that not every processor has.
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define HEADRACE_X86
#define HEADRACE_FOR_BMI2 __attribute__((target("bmi,bmi2,lzcnt")))
#endif

namespace headrace {

/// The instructions that a processor has beyond those of every machine. Functions with a faster way for some of them
/// take a `Cpu`. Tests pass one with fewer features, so that each way runs on every machine.
struct Cpu {
    bool bmi2 = false;   ///< x86: shifts by any register, with BMI1 and LZCNT.
    bool avx2 = false;   ///< x86: vectors of 32 bytes.
    bool pclmul = false; ///< x86: multiplication without carry.
    bool sse42 = false;  ///< x86: CRC-32C.
    bool crc = false;    ///< ARM: CRC-32C.

    bool operator==(const Cpu&) const = default;
};

/// The processor of this machine, examined once.
extern const Cpu this_cpu;

} // namespace headrace
