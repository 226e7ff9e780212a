#pragma once

// Code compiled for several processors is inlined into one function per processor.
#if defined(__GNUC__) || defined(__clang__)
#define HEADRACE_INLINE __attribute__((always_inline)) inline
#define HEADRACE_INLINE_LAMBDA __attribute__((always_inline))
#elif defined(_MSC_VER)
#define HEADRACE_INLINE __forceinline
#define HEADRACE_INLINE_LAMBDA
#endif

// Marks functions that use x86 instructions not every processor has.
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define HEADRACE_X86
#define HEADRACE_FOR_BMI2 __attribute__((target("bmi,bmi2,lzcnt")))
#endif

namespace headrace {

/// Optional instructions of a processor. Functions with a faster path for some of them take a `Cpu`. Tests pass one
/// with fewer features, so that each path runs on every machine.
struct Cpu {
    bool bmi2 = false;   ///< x86: shifts by any register, with BMI1 and LZCNT.
    bool avx2 = false;   ///< x86: 32-byte vectors.
    bool pclmul = false; ///< x86: carry-less multiplication.
    bool sse42 = false;  ///< x86: CRC-32C.
    bool crc = false;    ///< ARM: CRC-32C.
    bool pext = false;   ///< x86: AVX2 and BMI2 with a fast PEXT, which AMD has from Zen 3 on.
    bool vbmi = false;   ///< x86: 64-byte vectors whose bytes move anywhere (AVX-512 VBMI and VBMI2).
    bool fold = false;   ///< x86: the same, with carry-less multiplication of such vectors.
    bool ifma = false;   ///< x86: the same as `vbmi`, with multiplication of 52 bits.

    bool operator==(const Cpu&) const = default;
};

/// This machine's processor, detected once.
extern const Cpu this_cpu;

} // namespace headrace
