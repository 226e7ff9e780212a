#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/base/cpu.hpp"

#if defined(HEADRACE_X86)
#include <immintrin.h>

#define HEADRACE_FOR_NARROW __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))

namespace headrace::csv {

/// Digits, perhaps after a minus sign and with a decimal mark among them.
struct VectorNumber {
    std::uint64_t mantissa = 0;
    unsigned fraction = 0;   ///< Digits after the mark.
    std::uint32_t marks = 0; ///< Not 0: it has a mark.
    std::uint64_t sign = 0;  ///< 1: negative.
    std::uint32_t wrong = 0; ///< Not 0: it is none. Faults are collected, because branches on each are hard to predict.
};

/// Finds the lanes of the digits of a value that ends with its vector, and those `below` the mark. `marks`: 0 where a
/// mark is no part of a number.
template <std::size_t lanes>
HEADRACE_INLINE std::uint32_t find_digits(std::uint32_t all, std::uint32_t minuses, std::uint32_t marks,
                                          std::uint32_t& below, VectorNumber& out) noexcept {
    constexpr auto top = static_cast<std::uint32_t>(std::uint64_t{1} << (lanes - 1));
    const std::uint32_t minus = minuses & all & (0U - all);
    const std::uint32_t digits = all & ~(minuses | marks);
    const auto has_mark = static_cast<std::uint32_t>(marks != 0);
    below = (marks ^ (marks - 1)) & (0U - has_mark);
    out.sign = static_cast<std::uint64_t>(minus != 0);
    out.marks = marks;
    out.fraction = static_cast<unsigned>(lanes - 1) - static_cast<unsigned>(std::countr_zero(marks | top));
    // A digit behind the mark, or before it if it is the last byte, and one mark.
    out.wrong = (minuses ^ minus) | (marks & ~(digits >> 1 | (digits << 1 & top))) | (marks & (marks - 1)) |
                static_cast<std::uint32_t>(digits == 0);
    return digits;
}

inline constexpr std::size_t narrow_bytes = 16;

/// A value of 1 to 16 bytes. Those before it are read, too, up to the sixteenth before its end.
template <bool has_mark>
HEADRACE_FOR_NARROW HEADRACE_INLINE void read_narrow_by_avx2(const char* at, std::size_t size, __m128i mark,
                                                             VectorNumber& out) noexcept {
    constexpr std::uint32_t every = 0xFFFF;
    const __m128i lanes = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const auto before = static_cast<char>(narrow_bytes - size); // bytes of the vector
    const __m128i inside = _mm_cmpgt_epi8(lanes, _mm_set1_epi8(static_cast<char>(before - 1)));
    __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + size - narrow_bytes));
    const __m128i is_minus = _mm_and_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('-')), inside);
    const __m128i is_mark = has_mark ? _mm_and_si128(_mm_cmpeq_epi8(bytes, mark), inside) : _mm_setzero_si128();
    const auto minuses = static_cast<std::uint32_t>(_mm_movemask_epi8(is_minus));
    const auto marks = static_cast<std::uint32_t>(_mm_movemask_epi8(is_mark));
    std::uint32_t below = 0;
    (void)find_digits<narrow_bytes>((every << (narrow_bytes - size)) & every, minuses, marks, below, out);
    bytes = _mm_and_si128(_mm_sub_epi8(bytes, _mm_set1_epi8('0')),
                          _mm_andnot_si128(_mm_or_si128(is_minus, is_mark), inside));
    const __m128i nine = _mm_set1_epi8(9);
    out.wrong |= static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(bytes, nine), nine))) ^ every;
    if constexpr (has_mark) { // The digits before the mark move to its place.
        const auto moved = static_cast<char>(std::popcount(below));
        bytes = _mm_blendv_epi8(bytes, _mm_bslli_si128(bytes, 1), _mm_cmpgt_epi8(_mm_set1_epi8(moved), lanes));
    }
    bytes = _mm_maddubs_epi16(bytes, _mm_set1_epi16(0x010A));  // 10, 1
    bytes = _mm_madd_epi16(bytes, _mm_set1_epi32(0x00010064)); // 100, 1
    bytes = _mm_packus_epi32(bytes, bytes);
    bytes = _mm_madd_epi16(bytes, _mm_set1_epi32(0x00012710)); // 10000, 1
    const auto halves = static_cast<std::uint64_t>(_mm_cvtsi128_si64(bytes));
    out.mantissa = (halves & 0xFFFFFFFF) * 100'000'000 + (halves >> 32);
}

} // namespace headrace::csv
#endif
