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
#endif

} // namespace

void find_marks(const char* text, std::size_t blocks, const Marks& marks, MarkMasks* out, const Cpu& cpu) noexcept {
#if defined(HEADRACE_X86)
    if (cpu.avx2) return find_by_avx2(text, blocks, marks, out);
#else
    (void)cpu;
#endif
    find_plainly(text, blocks, marks, out);
}

} // namespace headrace
