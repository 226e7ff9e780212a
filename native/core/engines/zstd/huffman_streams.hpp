#pragma once

// Streams of codes are read by turns, by functions that exist once for every processor and once for those with BMI2:
// what they are made of must be part of each.
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define HEADRACE_ZSTD_BMI2 1
#define HEADRACE_ZSTD_INLINE __attribute__((always_inline)) inline
#define HEADRACE_ZSTD_LAMBDA __attribute__((always_inline))
#else
#define HEADRACE_ZSTD_INLINE inline
#define HEADRACE_ZSTD_LAMBDA
#endif
