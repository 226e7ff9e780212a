#include "core/pixels/resize.hpp"

#ifdef HEADRACE_X86
#include <immintrin.h>
#endif

namespace headrace::pixels {

#ifdef HEADRACE_X86
namespace {

#define HEADRACE_AVX2 __attribute__((target("avx2")))
#define HEADRACE_AVX2_INLINE __attribute__((target("avx2"), always_inline)) inline

using Vector = __m256i;
using Half = __m128i;

constexpr std::size_t lanes = 32;
constexpr std::size_t tile = 16;

HEADRACE_AVX2_INLINE Vector load(const std::uint8_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const Vector*>(from));
}

/// Adds to one of four sums of eight samples.
HEADRACE_AVX2_INLINE void add(Vector& low, Vector& high, Vector both, Vector low_weights, Vector high_weights) {
    low = _mm256_add_epi32(low, _mm256_madd_epi16(both, low_weights));
    high = _mm256_add_epi32(high, _mm256_madd_epi16(both, high_weights));
}

/// Sums of 22 bits of fraction, in two parts, as whole numbers.
HEADRACE_AVX2_INLINE Vector whole(Vector low, Vector high) {
    const Vector sum = _mm256_add_epi32(_mm256_slli_epi32(high, 15), low);
    return _mm256_srai_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(1 << 21)), 22);
}

HEADRACE_AVX2_INLINE void weigh_lanes(const std::uint8_t* rows, std::size_t step, const WeightPair* pairs,
                                      std::size_t count, std::uint8_t* out) {
    const Vector zero = _mm256_setzero_si256();
    Vector low[4] = {zero, zero, zero, zero};
    Vector high[4] = {zero, zero, zero, zero};
    for (std::size_t j = 0; j < count; j += 2, ++pairs) {
        const Vector first = load(rows + j * step);
        const Vector second = j + 1 < count ? load(rows + (j + 1) * step) : zero;
        const Vector front = _mm256_unpacklo_epi8(first, second);
        const Vector back = _mm256_unpackhi_epi8(first, second);
        std::int32_t words[2];
        __builtin_memcpy(words, pairs, sizeof words);
        const Vector low_weights = _mm256_set1_epi32(words[0]);
        const Vector high_weights = _mm256_set1_epi32(words[1]);
        add(low[0], high[0], _mm256_unpacklo_epi8(front, zero), low_weights, high_weights);
        add(low[1], high[1], _mm256_unpackhi_epi8(front, zero), low_weights, high_weights);
        add(low[2], high[2], _mm256_unpacklo_epi8(back, zero), low_weights, high_weights);
        add(low[3], high[3], _mm256_unpackhi_epi8(back, zero), low_weights, high_weights);
    }
    // The halves of each vector stay what they are, as packing works in halves as unpacking does.
    const Vector front = _mm256_packs_epi32(whole(low[0], high[0]), whole(low[1], high[1]));
    const Vector back = _mm256_packs_epi32(whole(low[2], high[2]), whole(low[3], high[3]));
    _mm256_storeu_si256(reinterpret_cast<Vector*>(out), _mm256_packus_epi16(front, back));
}

HEADRACE_AVX2 void weigh(const std::uint8_t* rows, std::size_t step, const WeightPair* pairs, std::size_t count,
                         std::size_t columns, std::uint8_t* out) {
    if (columns < lanes) return plain_resize_kernels().weigh(rows, step, pairs, count, columns, out);
    std::size_t i = 0;
    for (; i + lanes <= columns; i += lanes) weigh_lanes(rows + i, step, pairs, count, out + i);
    if (i < columns) weigh_lanes(rows + columns - lanes, step, pairs, count, out + columns - lanes);
}

/// Sixteen rows of sixteen.
HEADRACE_AVX2_INLINE void transpose_tile(const std::uint8_t* from, std::size_t from_step, std::uint8_t* to,
                                         std::size_t to_step) {
    Half a[tile], b[tile];
    for (std::size_t i = 0; i < tile; ++i) a[i] = _mm_loadu_si128(reinterpret_cast<const Half*>(from + i * from_step));
    // Four times, rows i and i + 8 are interleaved, and become rows 2 * i and 2 * i + 1.
    const auto interleave = [](const Half(&x)[tile], Half(&y)[tile]) HEADRACE_AVX2 {
        for (std::size_t i = 0; i < tile / 2; ++i) {
            y[2 * i] = _mm_unpacklo_epi8(x[i], x[i + tile / 2]);
            y[2 * i + 1] = _mm_unpackhi_epi8(x[i], x[i + tile / 2]);
        }
    };
    interleave(a, b);
    interleave(b, a);
    interleave(a, b);
    interleave(b, a);
    for (std::size_t i = 0; i < tile; ++i) _mm_storeu_si128(reinterpret_cast<Half*>(to + i * to_step), a[i]);
}

HEADRACE_AVX2 void transpose(const std::uint8_t* from, std::size_t from_step, std::size_t rows, std::size_t columns,
                             std::uint8_t* to, std::size_t to_step) {
    if (rows < tile || columns < tile) {
        return plain_resize_kernels().transpose(from, from_step, rows, columns, to, to_step);
    }
    for (std::size_t row = 0; row < rows; row += tile) {
        const std::size_t i = row + tile <= rows ? row : rows - tile; // The last tile begins in the one before.
        for (std::size_t column = 0; column < columns; column += tile) {
            const std::size_t j = column + tile <= columns ? column : columns - tile;
            transpose_tile(from + i * from_step + j, from_step, to + j * to_step + i, to_step);
        }
    }
}

} // namespace

const ResizeKernels* vector_resize_kernels(const Cpu& cpu) noexcept {
    static const ResizeKernels kernels{&weigh, &transpose};
    return cpu.avx2 ? &kernels : nullptr;
}

#else

const ResizeKernels* vector_resize_kernels(const Cpu&) noexcept { return nullptr; }

#endif

} // namespace headrace::pixels
