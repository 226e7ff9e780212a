#include "core/engines/jpeg/kernels.hpp"

#ifdef HEADRACE_X86
#include <array>
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 has these complaints about its own header.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#endif

namespace headrace::jpeg {

#ifdef HEADRACE_X86
namespace {

#define HEADRACE_AVX512 __attribute__((target("avx2,bmi,bmi2,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")))
#define HEADRACE_AVX512_INLINE                                                                                         \
    __attribute__((target("avx2,bmi,bmi2,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi"), always_inline)) inline

using Vector = __m512i;

using Quarter = __m128i;

constexpr int kept = 2; // bits of fraction between the passes

constexpr int fixed(double value) { return static_cast<int>(value * (1 << 13) + (value < 0 ? -0.5 : 0.5)); }

/// 32 numbers of 32 bits: those of the lower and of the upper four in each quarter of a row.
struct Wide {
    Vector low, high;
};

struct Pairs {
    Vector low, high;
    HEADRACE_AVX512_INLINE Pairs(Vector a, Vector b)
        : low(_mm512_unpacklo_epi16(a, b)),
          high(_mm512_unpackhi_epi16(a, b)) {}
    [[nodiscard]] HEADRACE_AVX512_INLINE Wide times(int first, int second) const {
        const Vector by = _mm512_set1_epi32((first & 0xFFFF) | static_cast<int>(static_cast<unsigned>(second) << 16));
        return {_mm512_madd_epi16(low, by), _mm512_madd_epi16(high, by)};
    }
};

HEADRACE_AVX512_INLINE Wide operator+(const Wide& a, const Wide& b) {
    return {_mm512_add_epi32(a.low, b.low), _mm512_add_epi32(a.high, b.high)};
}
HEADRACE_AVX512_INLINE Wide operator-(const Wide& a, const Wide& b) {
    return {_mm512_sub_epi32(a.low, b.low), _mm512_sub_epi32(a.high, b.high)};
}

/// 16 bits to 32 with 13 bits of fraction.
HEADRACE_AVX512_INLINE Wide widened(Vector row) {
    const Vector zero = _mm512_setzero_si512();
    return {_mm512_srai_epi32(_mm512_unpacklo_epi16(zero, row), 3),
            _mm512_srai_epi32(_mm512_unpackhi_epi16(zero, row), 3)};
}

template <int shift> HEADRACE_AVX512_INLINE Vector rounded(const Wide& sum) {
    const Vector half = _mm512_set1_epi32(1 << (shift - 1));
    return _mm512_packs_epi32(_mm512_srai_epi32(_mm512_add_epi32(sum.low, half), shift),
                              _mm512_srai_epi32(_mm512_add_epi32(sum.high, half), shift));
}

/// One pass over eight rows, as the AVX2 kernel's. The quarters of each belong to four blocks.
template <int shift> HEADRACE_AVX512_INLINE void pass(Vector (&row)[8]) {
    const Wide even_sum = widened(_mm512_add_epi16(row[0], row[4]));
    const Wide even_difference = widened(_mm512_sub_epi16(row[0], row[4]));
    const Pairs two_six(row[2], row[6]);
    const Wide b = two_six.times(fixed(0.541196100), fixed(0.541196100) - fixed(1.847759065));
    const Wide a = two_six.times(fixed(0.541196100) + fixed(0.765366865), fixed(0.541196100));

    const Pairs sums(_mm512_add_epi16(row[7], row[3]), _mm512_add_epi16(row[5], row[1]));
    const Wide z3 = sums.times(fixed(1.175875602) - fixed(1.961570560), fixed(1.175875602));
    const Wide z4 = sums.times(fixed(1.175875602), fixed(1.175875602) - fixed(0.390180644));
    const Pairs one_seven(row[1], row[7]);
    const Pairs three_five(row[3], row[5]);
    const Wide odd0 = one_seven.times(fixed(1.501321110) - fixed(0.899976223), -fixed(0.899976223)) + z4;
    const Wide odd1 = three_five.times(fixed(3.072711026) - fixed(2.562915447), -fixed(2.562915447)) + z3;
    const Wide odd2 = three_five.times(-fixed(2.562915447), fixed(2.053119869) - fixed(2.562915447)) + z4;
    const Wide odd3 = one_seven.times(-fixed(0.899976223), fixed(0.298631336) - fixed(0.899976223)) + z3;

    const Wide even0 = even_sum + a;
    const Wide even1 = even_difference + b;
    const Wide even2 = even_difference - b;
    const Wide even3 = even_sum - a;
    row[0] = rounded<shift>(even0 + odd0);
    row[7] = rounded<shift>(even0 - odd0);
    row[1] = rounded<shift>(even1 + odd1);
    row[6] = rounded<shift>(even1 - odd1);
    row[2] = rounded<shift>(even2 + odd2);
    row[5] = rounded<shift>(even2 - odd2);
    row[3] = rounded<shift>(even3 + odd3);
    row[4] = rounded<shift>(even3 - odd3);
}

/// Transposes each quarter.
HEADRACE_AVX512_INLINE void turn(Vector (&row)[8]) {
    const Vector a0 = _mm512_unpacklo_epi16(row[0], row[1]), a1 = _mm512_unpackhi_epi16(row[0], row[1]);
    const Vector a2 = _mm512_unpacklo_epi16(row[2], row[3]), a3 = _mm512_unpackhi_epi16(row[2], row[3]);
    const Vector a4 = _mm512_unpacklo_epi16(row[4], row[5]), a5 = _mm512_unpackhi_epi16(row[4], row[5]);
    const Vector a6 = _mm512_unpacklo_epi16(row[6], row[7]), a7 = _mm512_unpackhi_epi16(row[6], row[7]);
    const Vector b0 = _mm512_unpacklo_epi32(a0, a2), b1 = _mm512_unpackhi_epi32(a0, a2);
    const Vector b2 = _mm512_unpacklo_epi32(a1, a3), b3 = _mm512_unpackhi_epi32(a1, a3);
    const Vector b4 = _mm512_unpacklo_epi32(a4, a6), b5 = _mm512_unpackhi_epi32(a4, a6);
    const Vector b6 = _mm512_unpacklo_epi32(a5, a7), b7 = _mm512_unpackhi_epi32(a5, a7);
    row[0] = _mm512_unpacklo_epi64(b0, b4), row[1] = _mm512_unpackhi_epi64(b0, b4);
    row[2] = _mm512_unpacklo_epi64(b1, b5), row[3] = _mm512_unpackhi_epi64(b1, b5);
    row[4] = _mm512_unpacklo_epi64(b2, b6), row[5] = _mm512_unpackhi_epi64(b2, b6);
    row[6] = _mm512_unpacklo_epi64(b3, b7), row[7] = _mm512_unpackhi_epi64(b3, b7);
}

/// Four rows of four blocks, from four rows of each.
HEADRACE_AVX512_INLINE void gather(const Vector (&blocks)[4], Vector* row) {
    const Vector a = _mm512_shuffle_i32x4(blocks[0], blocks[1], 0x44);
    const Vector b = _mm512_shuffle_i32x4(blocks[0], blocks[1], 0xEE);
    const Vector c = _mm512_shuffle_i32x4(blocks[2], blocks[3], 0x44);
    const Vector d = _mm512_shuffle_i32x4(blocks[2], blocks[3], 0xEE);
    row[0] = _mm512_shuffle_i32x4(a, c, 0x88), row[1] = _mm512_shuffle_i32x4(a, c, 0xDD);
    row[2] = _mm512_shuffle_i32x4(b, d, 0x88), row[3] = _mm512_shuffle_i32x4(b, d, 0xDD);
}

/// The lanes of blocks with coefficients in the first row only.
HEADRACE_AVX512 __mmask32 first_row_only(const FourBlocks& blocks) {
    __mmask32 alone = 0;
    for (unsigned i = 0; i < 4; ++i) {
        const Vector upper = _mm512_maskz_loadu_epi16(0xFFFFFF00U, blocks[i]->coefficients);
        const Vector lower = _mm512_loadu_si512(blocks[i]->coefficients + 32);
        if (_mm512_test_epi16_mask(_mm512_or_si512(upper, lower), _mm512_or_si512(upper, lower)) == 0)
            alone |= __mmask32{0xFF} << (8 * i);
    }
    return alone;
}

HEADRACE_AVX512_INLINE void store_two(const Block& block, std::size_t row, Quarter samples) {
    _mm_storel_epi64(reinterpret_cast<Quarter*>(block.out + row * block.stride), samples);
    _mm_storel_epi64(reinterpret_cast<Quarter*>(block.out + (row + 1) * block.stride),
                     _mm_unpackhi_epi64(samples, samples));
}

HEADRACE_AVX512 void transform_four(const FourBlocks& blocks) {
    Vector upper[4], lower[4], row[8];
    for (std::size_t i = 0; i < 4; ++i) {
        const Block& block = *blocks[i];
        upper[i] = _mm512_mullo_epi16(_mm512_loadu_si512(block.coefficients), _mm512_loadu_si512(block.steps));
        lower[i] =
            _mm512_mullo_epi16(_mm512_loadu_si512(block.coefficients + 32), _mm512_loadu_si512(block.steps + 32));
    }
    gather(upper, row);
    gather(lower, row + 4);
    const Vector top = row[0];
    pass<11>(row);
    const Vector back = _mm512_srai_epi16(_mm512_slli_epi16(top, kept), kept);
    if (_mm512_cmpneq_epi16_mask(back, top) != 0) [[unlikely]] { // See `transform_one` in kernels.cpp.
        const __mmask32 alone = first_row_only(blocks);
        for (Vector& each : row) each = _mm512_mask_slli_epi16(each, alone, top, kept);
    }
    turn(row);
    pass<18>(row);
    turn(row);
    const Vector middle = _mm512_set1_epi8(-128);
    for (std::size_t i = 0; i < 8; i += 2) {
        const Vector samples = _mm512_sub_epi8(_mm512_packs_epi16(row[i], row[i + 1]), middle);
        store_two(*blocks[0], i, _mm512_castsi512_si128(samples));
        store_two(*blocks[1], i, _mm512_extracti32x4_epi32(samples, 1));
        store_two(*blocks[2], i, _mm512_extracti32x4_epi32(samples, 2));
        store_two(*blocks[3], i, _mm512_extracti32x4_epi32(samples, 3));
    }
}

constexpr std::size_t width = 32; // samples of 16 bits in a vector

/// The lanes that are used of a row with so many columns left.
HEADRACE_AVX512_INLINE __mmask32 lanes(std::size_t columns) {
    return columns >= width ? ~__mmask32{0} : (__mmask32{1} << columns) - 1;
}

HEADRACE_AVX512_INLINE Vector load(const std::uint8_t* from, __mmask32 used) {
    return _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(used, from));
}

/// 32 samples. All may be read: see `Kernels`. A load with a mask takes longer.
HEADRACE_AVX512_INLINE Vector load(const std::uint8_t* from) {
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

HEADRACE_AVX512_INLINE Vector thrice(Vector x) { return _mm512_add_epi16(x, _mm512_add_epi16(x, x)); }

HEADRACE_AVX512_INLINE void store_alternating(std::uint8_t* out, Vector even, Vector odd, __mmask32 used) {
    _mm512_mask_storeu_epi16(out, used, _mm512_or_si512(even, _mm512_slli_epi16(odd, 8)));
}

HEADRACE_AVX512 void widen(const std::uint8_t* row, std::size_t columns, std::uint8_t* out) {
    for (std::size_t i = 0; i < columns; i += width) {
        const Vector middle = thrice(load(row + i));
        const Vector even = _mm512_add_epi16(_mm512_add_epi16(middle, load(row + i - 1)), _mm512_set1_epi16(1));
        const Vector odd = _mm512_add_epi16(_mm512_add_epi16(middle, load(row + i + 1)), _mm512_set1_epi16(2));
        store_alternating(out + i * 2, _mm512_srli_epi16(even, 2), _mm512_srli_epi16(odd, 2), lanes(columns - i));
    }
}

HEADRACE_AVX512_INLINE Vector weighed(const std::uint8_t* near, const std::uint8_t* far) {
    return _mm512_add_epi16(thrice(load(near)), load(far));
}

HEADRACE_AVX512 void widen_two(const std::uint8_t* near, const std::uint8_t* far, std::size_t columns,
                               std::uint8_t* out) {
    for (std::size_t i = 0; i < columns; i += width) {
        const Vector middle = thrice(weighed(near + i, far + i));
        const Vector before = weighed(near + i - 1, far + i - 1);
        const Vector behind = weighed(near + i + 1, far + i + 1);
        const Vector even = _mm512_add_epi16(_mm512_add_epi16(middle, before), _mm512_set1_epi16(8));
        const Vector odd = _mm512_add_epi16(_mm512_add_epi16(middle, behind), _mm512_set1_epi16(7));
        store_alternating(out + i * 2, _mm512_srli_epi16(even, 4), _mm512_srli_epi16(odd, 4), lanes(columns - i));
    }
}

/// (2 * x * factor + 1) / 2 of x * 65536: a product of 16 bits of fraction, rounded.
HEADRACE_AVX512_INLINE Vector part(Vector x, int factor) {
    const Vector doubled = _mm512_mulhi_epi16(_mm512_add_epi16(x, x), _mm512_set1_epi16(static_cast<short>(factor)));
    return _mm512_srai_epi16(_mm512_add_epi16(doubled, _mm512_set1_epi16(1)), 1);
}

/// Where the 96 bytes of 32 pixels stand: red and green packed in the first vector, by eights, and blue in the second.
constexpr std::array<std::uint8_t, 128> make_order() {
    std::array<std::uint8_t, 128> order{};
    for (std::size_t i = 0; i < 96; ++i) {
        const std::size_t pixel = i / 3, channel = i % 3;
        order[i] = static_cast<std::uint8_t>(pixel / 8 * 16 + pixel % 8 + (channel == 0 ? 0 : channel == 1 ? 8 : 64));
    }
    return order;
}
alignas(64) constexpr std::array<std::uint8_t, 128> order = make_order();

HEADRACE_AVX512 void colours(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr, std::size_t columns,
                             std::uint8_t* rgb) {
    const Vector middle = _mm512_set1_epi16(128);
    const Vector half = _mm512_set1_epi32(1 << 15);
    const Vector factors = _mm512_set1_epi32((-22554 & 0xFFFF) | (65536 - 46802) << 16);
    const Vector first = _mm512_load_si512(order.data()), second = _mm512_load_si512(order.data() + 64);
    for (std::size_t i = 0; i < columns; i += width, rgb += width * 3) {
        const __mmask32 used = lanes(columns - i);
        const Vector luma = load(y + i, used);
        const Vector blue = _mm512_sub_epi16(load(cb + i, used), middle);
        const Vector red = _mm512_sub_epi16(load(cr + i, used), middle);
        // See the AVX2 kernel: the whole parts of the factors are added.
        const Vector low = _mm512_madd_epi16(_mm512_unpacklo_epi16(blue, red), factors);
        const Vector high = _mm512_madd_epi16(_mm512_unpackhi_epi16(blue, red), factors);
        const Vector green = _mm512_packs_epi32(_mm512_srai_epi32(_mm512_add_epi32(low, half), 16),
                                                _mm512_srai_epi32(_mm512_add_epi32(high, half), 16));
        const Vector r = _mm512_add_epi16(luma, _mm512_add_epi16(red, part(red, 91881 - 65536)));
        const Vector g = _mm512_add_epi16(luma, _mm512_sub_epi16(green, red));
        const Vector b =
            _mm512_add_epi16(luma, _mm512_add_epi16(_mm512_add_epi16(blue, blue), part(blue, 116130 - 131072)));
        const Vector two = _mm512_packus_epi16(r, g), third = _mm512_packus_epi16(b, b);
        const Vector front = _mm512_permutex2var_epi8(two, first, third);
        const __m256i back = _mm512_castsi512_si256(_mm512_permutex2var_epi8(two, second, third));
        if (columns - i >= width) {
            _mm512_storeu_si512(rgb, front);
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(rgb + 64), back);
        } else {
            const std::size_t bytes = (columns - i) * 3;
            _mm512_mask_storeu_epi8(rgb, bytes >= 64 ? ~__mmask64{0} : (__mmask64{1} << bytes) - 1, front);
            if (bytes > 64) _mm256_mask_storeu_epi8(rgb + 64, (__mmask32{1} << (bytes - 64)) - 1, back);
        }
    }
}

} // namespace

Kernels with_avx512(Kernels kernels) noexcept {
    kernels.transform_four = &transform_four;
    kernels.transform_low = &transform_four;
    kernels.widen = &widen;
    kernels.widen_two = &widen_two;
    kernels.colours = &colours;
    kernels.cpu.vbmi = true;
    return kernels;
}

#else

Kernels with_avx512(Kernels kernels) noexcept { return kernels; }

#endif

} // namespace headrace::jpeg
