#include "core/text/utf8.hpp"

#include <algorithm>
#include <array>

#if defined(HEADRACE_X86)
#include <immintrin.h>
#endif

namespace headrace {
namespace {

constexpr std::uint64_t high_bits = 0x8080808080808080;
constexpr std::size_t block = 64;

unsigned at(Bytes bytes, std::size_t i) noexcept { return std::to_integer<unsigned>(bytes[i]); }

bool is_between(unsigned byte, unsigned low, unsigned high) noexcept { return byte - low <= high - low; }

/// The size of the character that begins at `i` with a byte of 0x80 or more, or 0 if it is not valid.
std::size_t character_at(Bytes bytes, std::size_t i) noexcept {
    const std::size_t left = bytes.size() - i;
    const unsigned first = at(bytes, i);
    if (is_between(first, 0xC2, 0xDF)) return left >= 2 && is_between(at(bytes, i + 1), 0x80, 0xBF) ? 2 : 0;
    if (is_between(first, 0xE0, 0xEF)) {
        if (left < 3) return 0;
        // 0xE0 would begin an overlong form, 0xED a surrogate.
        const unsigned low = first == 0xE0 ? 0xA0 : 0x80, high = first == 0xED ? 0x9F : 0xBF;
        return is_between(at(bytes, i + 1), low, high) && is_between(at(bytes, i + 2), 0x80, 0xBF) ? 3 : 0;
    }
    if (!is_between(first, 0xF0, 0xF4) || left < 4) return 0;
    // 0xF0 would begin an overlong form, 0xF4 a number above U+10FFFF.
    const unsigned low = first == 0xF0 ? 0x90 : 0x80, high = first == 0xF4 ? 0x8F : 0xBF;
    const bool good = is_between(at(bytes, i + 1), low, high) && is_between(at(bytes, i + 2), 0x80, 0xBF) &&
                      is_between(at(bytes, i + 3), 0x80, 0xBF);
    return good ? 4 : 0;
}

bool is_utf8_plainly(Bytes bytes) noexcept {
    std::size_t i = 0;
    while (i < bytes.size()) {
        if (bytes.size() - i >= sizeof(std::uint64_t)) {
            const std::uint64_t high = load_le<std::uint64_t>(bytes.data() + i) & high_bits;
            i += high == 0 ? sizeof high : static_cast<std::size_t>(std::countr_zero(high)) / 8;
            if (high == 0) continue;
        }
        if (at(bytes, i) < 0x80) {
            ++i;
            continue;
        }
        const std::size_t size = character_at(bytes, i);
        if (size == 0) return false;
        i += size;
    }
    return true;
}

#if defined(HEADRACE_X86)

#define HEADRACE_FOR_AVX2 __attribute__((target("avx2")))
#define HEADRACE_FOR_AVX2_INLINE __attribute__((target("avx2"), always_inline)) inline

/// What a pair of bytes in a row may be wrong in. Each of the tables gives what one half of a byte allows; what all
/// three of them allow is wrong (Keiser and Lemire, "Validating UTF-8 in less than one instruction per byte", 2021).
enum Wrong : std::uint8_t {
    too_short = 1 << 0, // a lead byte, and none after it that continues it
    too_long = 1 << 1,  // a byte of ASCII, and one that continues
    overlong_3 = 1 << 2,
    too_large = 1 << 3,
    surrogate = 1 << 4,
    overlong_2 = 1 << 5,
    too_large_1000 = 1 << 6, // or an overlong form of four bytes
    two_continue = 1 << 7,   // right after a lead byte of three or four bytes only
};
using HalfTable = std::array<std::uint8_t, 16>;

constexpr HalfTable first_high = [] {
    HalfTable table{};
    for (std::size_t i = 0; i < 8; ++i) table[i] = too_long;
    for (std::size_t i = 8; i < 12; ++i) table[i] = two_continue;
    table[12] = too_short | overlong_2;
    table[13] = too_short;
    table[14] = too_short | overlong_3 | surrogate;
    table[15] = too_short | too_large | too_large_1000;
    return table;
}();
constexpr HalfTable first_low = [] {
    HalfTable table{};
    table.fill(too_short | too_long | two_continue);
    table[0] |= overlong_2 | overlong_3 | too_large_1000;
    table[1] |= overlong_2;
    table[4] |= too_large;
    for (std::size_t i = 5; i < 16; ++i) table[i] |= too_large | too_large_1000;
    table[13] |= surrogate;
    return table;
}();
constexpr HalfTable second_high = [] {
    HalfTable table{};
    table.fill(too_short);
    for (std::size_t i = 8; i < 12; ++i) table[i] = too_long | overlong_2 | two_continue;
    table[8] |= overlong_3 | too_large_1000;
    table[9] |= overlong_3 | too_large;
    table[10] |= surrogate | too_large;
    table[11] |= surrogate | too_large;
    return table;
}();

HEADRACE_FOR_AVX2_INLINE __m256i repeated(const HalfTable& table) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table.data())));
}

/// The bytes that are `count` places before each byte of `bytes`.
template <int count> HEADRACE_FOR_AVX2_INLINE __m256i before(__m256i bytes, __m256i last) {
    return _mm256_alignr_epi8(bytes, _mm256_permute2x128_si256(last, bytes, 0x21), 16 - count);
}

HEADRACE_FOR_AVX2_INLINE __m256i high_halves(__m256i bytes) {
    return _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(0x0F));
}

HEADRACE_FOR_AVX2_INLINE __m256i load(const std::byte* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

/// What is wrong in 32 bytes that follow `last`: not zero.
HEADRACE_FOR_AVX2_INLINE __m256i wrong_in(__m256i bytes, __m256i last) {
    const __m256i low_half = _mm256_set1_epi8(0x0F);
    const __m256i first = before<1>(bytes, last);
    const __m256i pair =
        _mm256_and_si256(_mm256_and_si256(_mm256_shuffle_epi8(repeated(first_high), high_halves(first)),
                                          _mm256_shuffle_epi8(repeated(first_low), _mm256_and_si256(first, low_half))),
                         _mm256_shuffle_epi8(repeated(second_high), high_halves(bytes)));
    const __m256i third = _mm256_subs_epu8(before<2>(bytes, last), _mm256_set1_epi8(0xE0 - 0x80));
    const __m256i fourth = _mm256_subs_epu8(before<3>(bytes, last), _mm256_set1_epi8(0xF0 - 0x80));
    const __m256i must_continue = _mm256_and_si256(_mm256_or_si256(third, fourth), _mm256_set1_epi8(-0x80));
    return _mm256_xor_si256(must_continue, pair);
}

HEADRACE_FOR_AVX2 bool is_utf8_by_avx2(Bytes bytes) noexcept {
    constexpr std::size_t step = 32;
    __m256i last = _mm256_setzero_si256(), wrong = last;
    std::size_t at = 0;
    for (; bytes.size() - at >= step; at += step) {
        const __m256i now = load(bytes.data() + at);
        if (_mm256_movemask_epi8(_mm256_or_si256(now, last)) != 0) wrong = _mm256_or_si256(wrong, wrong_in(now, last));
        last = now;
    }
    std::array<std::byte, 2 * step> rest{}; // Zeros after the end are wrong if a character is cut.
    std::ranges::copy(bytes.subspan(at), rest.begin());
    const __m256i now = load(rest.data());
    wrong = _mm256_or_si256(wrong, _mm256_or_si256(wrong_in(now, last), wrong_in(load(rest.data() + step), now)));
    return _mm256_testz_si256(wrong, wrong) != 0;
}
#endif

} // namespace

bool is_ascii(Bytes bytes) noexcept {
    std::size_t i = 0;
    for (; bytes.size() - i >= block; i += block) {
        std::uint64_t any = 0;
        for (std::size_t k = 0; k < block; k += sizeof any) any |= load_le<std::uint64_t>(bytes.data() + i + k);
        if ((any & high_bits) != 0) return false;
    }
    std::uint64_t any = 0;
    for (; bytes.size() - i >= sizeof any; i += sizeof any) any |= load_le<std::uint64_t>(bytes.data() + i);
    for (; i < bytes.size(); ++i) any |= at(bytes, i);
    return (any & high_bits) == 0;
}

bool is_utf8(Bytes bytes, const Cpu& cpu) noexcept {
#if defined(HEADRACE_X86)
    constexpr std::size_t few = 32;
    if (cpu.avx2 && bytes.size() >= few) return is_utf8_by_avx2(bytes);
#else
    (void)cpu;
#endif
    return is_utf8_plainly(bytes);
}

} // namespace headrace
