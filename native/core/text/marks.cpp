#include "core/text/marks.hpp"

#include <bit>
#include <cstring>

#if defined(HEADRACE_X86)
#include <immintrin.h>
#endif

namespace headrace {
namespace {

/// Which of eight bytes equal the repeated byte `pattern`.
std::uint64_t equal_in(std::uint64_t word, std::uint64_t pattern) noexcept {
    static_assert(std::endian::native == std::endian::little, "big-endian hosts need a byte swap here");
    constexpr std::uint64_t low_bits = 0x7F7F7F7F7F7F7F7F;
    const std::uint64_t other = word ^ pattern;
    const std::uint64_t zeros = ~(((other & low_bits) + low_bits) | other | low_bits); // the top bit of each
    return (zeros >> 7) * 0x0102040810204080 >> 56;
}

void find_plainly(const char* text, std::size_t blocks, const Marks& marks, MarkMasks* out) noexcept {
    constexpr std::uint64_t every_byte = 0x0101010101010101;
    for (; blocks != 0; --blocks, text += block_bytes, ++out) {
        *out = {};
        for (unsigned i = 0; i < block_bytes; i += 8) {
            std::uint64_t word = 0;
            std::memcpy(&word, text + i, sizeof word);
            for (std::size_t k = 0; k < marks.size(); ++k)
                out->of[k] |= equal_in(word, every_byte * static_cast<unsigned char>(marks[k])) << i;
        }
    }
}

#if defined(HEADRACE_X86)
__attribute__((target("avx2"))) void find_by_avx2(const char* text, std::size_t blocks, const Marks& marks,
                                                  MarkMasks* out) noexcept {
    const __m256i patterns[] = {_mm256_set1_epi8(marks[0]), _mm256_set1_epi8(marks[1]), _mm256_set1_epi8(marks[2]),
                                _mm256_set1_epi8(marks[3])};
    for (; blocks != 0; --blocks, text += block_bytes, ++out) {
        const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(text));
        const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(text + block_bytes / 2));
        for (std::size_t k = 0; k < marks.size(); ++k) {
            const auto first = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, patterns[k])));
            const auto second = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, patterns[k])));
            out->of[k] = first | std::uint64_t{second} << 32;
        }
    }
}

#define HEADRACE_FOR_VBMI                                                                                              \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,bmi,bmi2,popcnt")))

HEADRACE_FOR_VBMI void find_by_vbmi(const char* text, std::size_t blocks, const Marks& marks, MarkMasks* out) noexcept {
    const __m512i patterns[] = {_mm512_set1_epi8(marks[0]), _mm512_set1_epi8(marks[1]), _mm512_set1_epi8(marks[2]),
                                _mm512_set1_epi8(marks[3])};
    for (; blocks != 0; --blocks, text += block_bytes, ++out) {
        const __m512i bytes = _mm512_loadu_si512(text);
        for (std::size_t k = 0; k < marks.size(); ++k) out->of[k] = _mm512_cmpeq_epi8_mask(bytes, patterns[k]);
    }
}

// Both write several places at a time: how many bits are set is hard to predict.

__attribute__((target("bmi,bmi2,popcnt"))) std::uint32_t*
put_by_bmi2(const std::uint64_t* masks, std::size_t count, std::uint32_t first, std::uint32_t* out) noexcept {
    constexpr int together = 8;
    for (std::size_t k = 0; k < count; ++k, first += block_bytes) {
        std::uint64_t mask = masks[k];
        std::uint32_t* const end = out + _mm_popcnt_u64(mask);
        do {
            for (int i = 0; i < together; ++i, mask = _blsr_u64(mask))
                out[i] = first + static_cast<std::uint32_t>(_tzcnt_u64(mask));
            out += together;
        } while (out < end);
        out = end;
    }
    return out;
}

__attribute__((target("popcnt"))) std::size_t count_by_popcnt(const std::uint64_t* masks, std::size_t count) noexcept {
    std::size_t sum = 0;
    for (std::size_t k = 0; k < count; ++k) sum += static_cast<std::size_t>(_mm_popcnt_u64(masks[k]));
    return sum;
}

/// A product without carries by all ones has at bit i the sum of bits 0 to i.
__attribute__((target("sse4.2,pclmul"))) void between_by_pclmul(const std::uint64_t* marks, std::size_t count,
                                                                std::uint64_t* out) noexcept {
    const __m128i all = _mm_set1_epi8(-1);
    for (std::size_t k = 0; k < count; ++k)
        out[k] = static_cast<std::uint64_t>(
            _mm_cvtsi128_si64(_mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<std::int64_t>(marks[k])), all, 0)));
}

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // GCC 12 has this complaint about its own header.
#endif
HEADRACE_FOR_VBMI std::uint32_t* put_by_vbmi(const std::uint64_t* masks, std::size_t count, std::uint32_t first,
                                             std::uint32_t* out) noexcept {
    constexpr int together = 16;
    alignas(block_bytes) char counted[block_bytes];
    for (std::size_t i = 0; i < block_bytes; ++i) counted[i] = static_cast<char>(i);
    const __m512i places = _mm512_load_si512(counted);
    for (std::size_t k = 0; k < count; ++k, first += block_bytes) {
        std::uint32_t* const end = out + _mm_popcnt_u64(masks[k]);
        const __m512i base = _mm512_set1_epi32(static_cast<int>(first));
        __m512i found = _mm512_maskz_compress_epi8(masks[k], places);
        do {
            _mm512_storeu_si512(out, _mm512_add_epi32(base, _mm512_cvtepu8_epi32(_mm512_castsi512_si128(found))));
            found = _mm512_alignr_epi32(found, found, together / 4);
            out += together;
        } while (out < end);
        out = end;
    }
    return out;
}
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif

} // namespace

void find_marks(const char* text, std::size_t blocks, const Marks& marks, MarkMasks* out, const Cpu& cpu) noexcept {
#if defined(HEADRACE_X86)
    if (cpu.vbmi) return find_by_vbmi(text, blocks, marks, out);
    if (cpu.avx2) return find_by_avx2(text, blocks, marks, out);
#else
    (void)cpu;
#endif
    find_plainly(text, blocks, marks, out);
}

std::uint32_t* put_places(const std::uint64_t* masks, std::size_t count, std::uint32_t first, std::uint32_t* out,
                          const Cpu& cpu) noexcept {
#if defined(HEADRACE_X86)
    if (cpu.vbmi) return put_by_vbmi(masks, count, first, out);
    if (cpu.bmi2) return put_by_bmi2(masks, count, first, out);
#else
    (void)cpu;
#endif
    for (std::size_t k = 0; k < count; ++k, first += block_bytes)
        for (std::uint64_t mask = masks[k]; mask != 0; mask &= mask - 1)
            *out++ = first + static_cast<std::uint32_t>(std::countr_zero(mask));
    return out;
}

std::size_t count_places(const std::uint64_t* masks, std::size_t count, const Cpu& cpu) noexcept {
#if defined(HEADRACE_X86)
    if (cpu.bmi2) return count_by_popcnt(masks, count);
#else
    (void)cpu;
#endif
    std::size_t sum = 0;
    for (std::size_t k = 0; k < count; ++k) sum += static_cast<std::size_t>(std::popcount(masks[k]));
    return sum;
}

void find_between(const std::uint64_t* marks, std::size_t count, std::uint64_t* out, const Cpu& cpu) noexcept {
#if defined(HEADRACE_X86)
    if (cpu.pclmul) return between_by_pclmul(marks, count, out);
#else
    (void)cpu;
#endif
    for (std::size_t k = 0; k < count; ++k) out[k] = between_marks(marks[k]);
}

} // namespace headrace
