#include "core/engines/jpeg/kernels.hpp"

#ifdef HEADRACE_X86
#include <cstring>
#include <immintrin.h>
#endif

namespace headrace::jpeg {

#ifdef HEADRACE_X86
namespace {

#define HEADRACE_AVX2 __attribute__((target("avx2")))
#define HEADRACE_AVX2_INLINE __attribute__((target("avx2"), always_inline)) inline

using Vector = __m256i;
using Half = __m128i;

constexpr int kept = 2; // bits of fraction between the passes

constexpr int fixed(double value) { return static_cast<int>(value * (1 << 13) + (value < 0 ? -0.5 : 0.5)); }

/// A pair of factors for _mm256_madd_epi16 on two rows whose numbers alternate.
HEADRACE_AVX2_INLINE Vector factors(int first, int second) {
    return _mm256_set1_epi32((first & 0xFFFF) | static_cast<int>(static_cast<unsigned>(second) << 16));
}

/// Sixteen numbers of 32 bits: those of the lower and of the upper four in each half of a row.
struct Wide {
    Vector low, high;
};

struct Pairs {
    Vector low, high;
    HEADRACE_AVX2_INLINE Pairs(Vector a, Vector b)
        : low(_mm256_unpacklo_epi16(a, b)),
          high(_mm256_unpackhi_epi16(a, b)) {}
    [[nodiscard]] HEADRACE_AVX2_INLINE Wide times(int first, int second) const {
        const Vector by = factors(first, second);
        return {_mm256_madd_epi16(low, by), _mm256_madd_epi16(high, by)};
    }
};

HEADRACE_AVX2_INLINE Wide operator+(const Wide& a, const Wide& b) {
    return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
HEADRACE_AVX2_INLINE Wide operator-(const Wide& a, const Wide& b) {
    return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}

/// 16 bits to 32 with 13 bits of fraction, and a half for the `ended` that follows.
template <int shift> HEADRACE_AVX2_INLINE Wide begun(Vector row) {
    constexpr int eight = 8; // Half of 1 << 18 has too many bits for one factor.
    return Pairs(row, _mm256_set1_epi16(eight)).times(1 << 13, (1 << (shift - 1)) / eight);
}

template <int shift> HEADRACE_AVX2_INLINE Vector ended(const Wide& sum) {
    return _mm256_packs_epi32(_mm256_srai_epi32(sum.low, shift), _mm256_srai_epi32(sum.high, shift));
}

template <int shift> HEADRACE_AVX2_INLINE void end_pass(const Wide (&even)[4], const Wide (&odd)[4], Vector (&row)[8]) {
    for (std::size_t i = 0; i < 4; ++i) {
        row[i] = ended<shift>(even[i] + odd[i]);
        row[7 - i] = ended<shift>(even[i] - odd[i]);
    }
}

/// One pass over eight rows. The halves of each belong to two blocks.
template <int shift> HEADRACE_AVX2_INLINE void pass(Vector (&row)[8]) {
    const Wide even_sum = begun<shift>(_mm256_add_epi16(row[0], row[4]));
    const Wide even_difference = begun<shift>(_mm256_sub_epi16(row[0], row[4]));
    const Pairs two_six(row[2], row[6]);
    const Wide b = two_six.times(fixed(0.541196100), fixed(0.541196100) - fixed(1.847759065));
    const Wide a = two_six.times(fixed(0.541196100) + fixed(0.765366865), fixed(0.541196100));
    const Wide even[4] = {even_sum + a, even_difference + b, even_difference - b, even_sum - a};

    const Pairs sums(_mm256_add_epi16(row[7], row[3]), _mm256_add_epi16(row[5], row[1]));
    const Wide z3 = sums.times(fixed(1.175875602) - fixed(1.961570560), fixed(1.175875602));
    const Wide z4 = sums.times(fixed(1.175875602), fixed(1.175875602) - fixed(0.390180644));
    const Pairs one_seven(row[1], row[7]);
    const Pairs three_five(row[3], row[5]);
    const Wide odd[4] = {
        one_seven.times(fixed(1.501321110) - fixed(0.899976223), -fixed(0.899976223)) + z4,
        three_five.times(fixed(3.072711026) - fixed(2.562915447), -fixed(2.562915447)) + z3,
        three_five.times(-fixed(2.562915447), fixed(2.053119869) - fixed(2.562915447)) + z4,
        one_seven.times(-fixed(0.899976223), fixed(0.298631336) - fixed(0.899976223)) + z3,
    };
    end_pass<shift>(even, odd, row);
}

/// The same where all but the first four rows are 0.
template <int shift> HEADRACE_AVX2_INLINE void pass_low(const Vector (&in)[4], Vector (&row)[8]) {
    const Wide mean = begun<shift>(in[0]);
    const Pairs two(in[2], _mm256_setzero_si256());
    const Wide b = two.times(fixed(0.541196100), 0);
    const Wide a = two.times(fixed(0.541196100) + fixed(0.765366865), 0);
    const Wide even[4] = {mean + a, mean + b, mean - b, mean - a};
    constexpr int z3_three = fixed(1.175875602) - fixed(1.961570560), z3_one = fixed(1.175875602);
    constexpr int z4_three = fixed(1.175875602), z4_one = fixed(1.175875602) - fixed(0.390180644);
    const Pairs one_three(in[1], in[3]);
    const Wide odd[4] = {
        one_three.times(fixed(1.501321110) - fixed(0.899976223) + z4_one, z4_three),
        one_three.times(z3_one, fixed(3.072711026) - fixed(2.562915447) + z3_three),
        one_three.times(z4_one, -fixed(2.562915447) + z4_three),
        one_three.times(-fixed(0.899976223) + z3_one, z3_three),
    };
    end_pass<shift>(even, odd, row);
}

/// Transposes each half.
HEADRACE_AVX2_INLINE void turn(Vector (&row)[8]) {
    const Vector a0 = _mm256_unpacklo_epi16(row[0], row[1]), a1 = _mm256_unpackhi_epi16(row[0], row[1]);
    const Vector a2 = _mm256_unpacklo_epi16(row[2], row[3]), a3 = _mm256_unpackhi_epi16(row[2], row[3]);
    const Vector a4 = _mm256_unpacklo_epi16(row[4], row[5]), a5 = _mm256_unpackhi_epi16(row[4], row[5]);
    const Vector a6 = _mm256_unpacklo_epi16(row[6], row[7]), a7 = _mm256_unpackhi_epi16(row[6], row[7]);
    const Vector b0 = _mm256_unpacklo_epi32(a0, a2), b1 = _mm256_unpackhi_epi32(a0, a2);
    const Vector b2 = _mm256_unpacklo_epi32(a1, a3), b3 = _mm256_unpackhi_epi32(a1, a3);
    const Vector b4 = _mm256_unpacklo_epi32(a4, a6), b5 = _mm256_unpackhi_epi32(a4, a6);
    const Vector b6 = _mm256_unpacklo_epi32(a5, a7), b7 = _mm256_unpackhi_epi32(a5, a7);
    row[0] = _mm256_unpacklo_epi64(b0, b4), row[1] = _mm256_unpackhi_epi64(b0, b4);
    row[2] = _mm256_unpacklo_epi64(b1, b5), row[3] = _mm256_unpackhi_epi64(b1, b5);
    row[4] = _mm256_unpacklo_epi64(b2, b6), row[5] = _mm256_unpackhi_epi64(b2, b6);
    row[6] = _mm256_unpacklo_epi64(b3, b7), row[7] = _mm256_unpackhi_epi64(b3, b7);
}

HEADRACE_AVX2_INLINE Vector both(const void* first, const void* second) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(static_cast<const Half*>(first))),
                                   _mm_loadu_si128(static_cast<const Half*>(second)), 1);
}

/// Stores 64 samples of each block, from their columns.
HEADRACE_AVX2_INLINE void store_columns(const Vector (&column)[8], const Block& first, const Block& second) {
    const Vector middle = _mm256_set1_epi8(-128);
    Vector x[4];
    for (std::size_t i = 0; i < 4; ++i)
        x[i] = _mm256_sub_epi8(_mm256_packs_epi16(column[2 * i], column[2 * i + 1]), middle);
    const Vector a0 = _mm256_unpacklo_epi8(x[0], x[2]), a1 = _mm256_unpackhi_epi8(x[0], x[2]);
    const Vector a2 = _mm256_unpacklo_epi8(x[1], x[3]), a3 = _mm256_unpackhi_epi8(x[1], x[3]);
    const Vector b0 = _mm256_unpacklo_epi8(a0, a2), b1 = _mm256_unpackhi_epi8(a0, a2);
    const Vector b2 = _mm256_unpacklo_epi8(a1, a3), b3 = _mm256_unpackhi_epi8(a1, a3);
    const Vector rows[4] = {_mm256_unpacklo_epi8(b0, b2), _mm256_unpackhi_epi8(b0, b2), _mm256_unpacklo_epi8(b1, b3),
                            _mm256_unpackhi_epi8(b1, b3)};
    const auto store = [](const Block& block, std::size_t row, Half samples) HEADRACE_AVX2 {
        _mm_storel_pd(reinterpret_cast<double*>(block.out + row * block.stride), _mm_castsi128_pd(samples));
        _mm_storeh_pd(reinterpret_cast<double*>(block.out + (row + 1) * block.stride), _mm_castsi128_pd(samples));
    };
    for (std::size_t i = 0; i < 4; ++i) {
        store(first, 2 * i, _mm256_castsi256_si128(rows[i]));
        store(second, 2 * i, _mm256_extracti128_si256(rows[i], 1));
    }
}

/// Whether one of these numbers leaves 16 bits when it gets its bits of fraction.
HEADRACE_AVX2_INLINE bool has_large(Vector row) {
    const Vector back = _mm256_srai_epi16(_mm256_slli_epi16(row, kept), kept);
    return _mm256_movemask_epi8(_mm256_cmpeq_epi16(back, row)) != -1;
}

/// All bits of a half are set where its block has coefficients in the first row only.
HEADRACE_AVX2 Vector first_row_only(const Block& first, const Block& second) {
    Half rest[2] = {_mm_setzero_si128(), _mm_setzero_si128()};
    for (std::size_t i = 8; i < 64; i += 8) {
        rest[0] = _mm_or_si128(rest[0], _mm_loadu_si128(reinterpret_cast<const Half*>(first.coefficients + i)));
        rest[1] = _mm_or_si128(rest[1], _mm_loadu_si128(reinterpret_cast<const Half*>(second.coefficients + i)));
    }
    const auto all = [](Half bits) HEADRACE_AVX2 { return _mm_set1_epi32(_mm_testz_si128(bits, bits) != 0 ? -1 : 0); };
    return _mm256_inserti128_si256(_mm256_castsi128_si256(all(rest[0])), all(rest[1]), 1);
}

HEADRACE_AVX2 void transform(const Block& first, const Block& second) {
    Vector row[8];
    for (std::size_t i = 0; i < 8; ++i) {
        row[i] = _mm256_mullo_epi16(both(first.coefficients + i * 8, second.coefficients + i * 8),
                                    both(first.steps + i * 8, second.steps + i * 8));
    }
    const Vector top = row[0];
    pass<11>(row);
    if (has_large(top)) [[unlikely]] { // See `transform_one` in kernels.cpp.
        const Vector is_alone = first_row_only(first, second);
        for (Vector& each : row) each = _mm256_blendv_epi8(each, _mm256_slli_epi16(top, kept), is_alone);
    }
    turn(row);
    pass<18>(row);
    store_columns(row, first, second);
}

HEADRACE_AVX2 void transform_four(const FourBlocks& blocks) {
    transform(*blocks[0], *blocks[1]);
    transform(*blocks[2], *blocks[3]);
}

/// Four numbers of each block, from place `i` on.
template <class Number>
HEADRACE_AVX2_INLINE Vector fours(const FourBlocks& blocks, const Number* Block::* numbers, std::size_t i) {
    const auto pair = [&](const Block& first, const Block& second) HEADRACE_AVX2 {
        const __m128d low = _mm_load_sd(reinterpret_cast<const double*>(first.*numbers + i));
        return _mm_castpd_si128(_mm_loadh_pd(low, reinterpret_cast<const double*>(second.*numbers + i)));
    };
    return _mm256_inserti128_si256(_mm256_castsi128_si256(pair(*blocks[0], *blocks[1])), pair(*blocks[2], *blocks[3]),
                                   1);
}

HEADRACE_AVX2 void transform_low(const FourBlocks& blocks) {
    Vector in[4], row[8];
    for (std::size_t i = 0; i < 4; ++i)
        in[i] = _mm256_mullo_epi16(fours(blocks, &Block::coefficients, i * 8), fours(blocks, &Block::steps, i * 8));
    if (has_large(in[0])) [[unlikely]]
        return transform_four(blocks);
    pass_low<11>(in, row);
    Vector pairs[8]; // Of rows, then fours of them.
    for (std::size_t i = 0; i < 4; ++i) {
        pairs[i] = _mm256_unpacklo_epi16(row[2 * i], row[2 * i + 1]);
        pairs[4 + i] = _mm256_unpackhi_epi16(row[2 * i], row[2 * i + 1]);
    }
    for (std::size_t which = 0; which < 2; ++which) {
        const Vector* const of = pairs + which * 4;
        const Vector a0 = _mm256_unpacklo_epi32(of[0], of[1]), a1 = _mm256_unpackhi_epi32(of[0], of[1]);
        const Vector b0 = _mm256_unpacklo_epi32(of[2], of[3]), b1 = _mm256_unpackhi_epi32(of[2], of[3]);
        const Vector columns[4] = {_mm256_unpacklo_epi64(a0, b0), _mm256_unpackhi_epi64(a0, b0),
                                   _mm256_unpacklo_epi64(a1, b1), _mm256_unpackhi_epi64(a1, b1)};
        pass_low<18>(columns, row);
        store_columns(row, *blocks[which], *blocks[2 + which]);
    }
}

HEADRACE_AVX2_INLINE Vector sixteen(const std::uint8_t* from) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const Half*>(from)));
}

HEADRACE_AVX2_INLINE Vector thrice(Vector x) { return _mm256_add_epi16(x, _mm256_add_epi16(x, x)); }

/// Samples that alternate, from a row of the even ones and a row of the odd ones.
HEADRACE_AVX2_INLINE void store_alternating(std::uint8_t* out, Vector even, Vector odd, std::size_t columns) {
    const Vector samples = _mm256_or_si256(even, _mm256_slli_epi16(odd, 8));
    if (columns >= 16) return _mm256_storeu_si256(reinterpret_cast<Vector*>(out), samples);
    alignas(32) std::uint8_t last[32];
    _mm256_store_si256(reinterpret_cast<Vector*>(last), samples);
    std::memcpy(out, last, columns * 2);
}

HEADRACE_AVX2 void widen(const std::uint8_t* row, std::size_t columns, std::uint8_t* out) {
    for (std::size_t i = 0; i < columns; i += 16) {
        const Vector middle = thrice(sixteen(row + i));
        const Vector even = _mm256_add_epi16(_mm256_add_epi16(middle, sixteen(row + i - 1)), _mm256_set1_epi16(1));
        const Vector odd = _mm256_add_epi16(_mm256_add_epi16(middle, sixteen(row + i + 1)), _mm256_set1_epi16(2));
        store_alternating(out + i * 2, _mm256_srli_epi16(even, 2), _mm256_srli_epi16(odd, 2), columns - i);
    }
}

HEADRACE_AVX2_INLINE Vector weighed(const std::uint8_t* near, const std::uint8_t* far) {
    return _mm256_add_epi16(thrice(sixteen(near)), sixteen(far));
}

HEADRACE_AVX2 void widen_two(const std::uint8_t* near, const std::uint8_t* far, std::size_t columns,
                             std::uint8_t* out) {
    // Each sum is made once. The neighbours of sixteen of them come from the vectors before and behind.
    Vector here = weighed(near, far);
    Vector across =
        _mm256_permute2x128_si256(_mm256_set1_epi16(static_cast<short>(3 * near[-1] + far[-1])), here, 0x21);
    for (std::size_t i = 0; i < columns; i += 16) {
        const Vector next = weighed(near + i + 16, far + i + 16);
        const Vector left = _mm256_alignr_epi8(here, across, 14);
        across = _mm256_permute2x128_si256(here, next, 0x21);
        const Vector right = _mm256_alignr_epi8(across, here, 2);
        const Vector middle = _mm256_add_epi16(thrice(here), _mm256_set1_epi16(7));
        const Vector even = _mm256_add_epi16(_mm256_add_epi16(middle, left), _mm256_set1_epi16(1));
        const Vector odd = _mm256_add_epi16(middle, right);
        store_alternating(out + i * 2, _mm256_srli_epi16(even, 4), _mm256_srli_epi16(odd, 4), columns - i);
        here = next;
    }
}

/// The bytes of a channel at their places in 16 bytes of each half. -1: another channel's.
HEADRACE_AVX2_INLINE Vector chosen(Vector channel, Half places) {
    return _mm256_shuffle_epi8(channel, _mm256_broadcastsi128_si256(places));
}

HEADRACE_AVX2_INLINE Vector any_of(Vector a, Vector b, Vector c) { return _mm256_or_si256(_mm256_or_si256(a, b), c); }

/// The 96 bytes of 32 pixels. Byte i of each half of them is channel i % 3 of pixel i / 3.
HEADRACE_AVX2_INLINE void store_pixels(std::uint8_t* out, Vector r, Vector g, Vector b) {
    const Vector first = any_of(chosen(r, _mm_setr_epi8(0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5)),
                                chosen(g, _mm_setr_epi8(-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1)),
                                chosen(b, _mm_setr_epi8(-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1)));
    const Vector second = any_of(chosen(r, _mm_setr_epi8(-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1)),
                                 chosen(g, _mm_setr_epi8(5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10)),
                                 chosen(b, _mm_setr_epi8(-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1)));
    const Vector third =
        any_of(chosen(r, _mm_setr_epi8(-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1)),
               chosen(g, _mm_setr_epi8(-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1)),
               chosen(b, _mm_setr_epi8(10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15)));
    auto* to = reinterpret_cast<Half*>(out);
    _mm_storeu_si128(to, _mm256_castsi256_si128(first));
    _mm_storeu_si128(to + 1, _mm256_castsi256_si128(second));
    _mm_storeu_si128(to + 2, _mm256_castsi256_si128(third));
    _mm_storeu_si128(to + 3, _mm256_extracti128_si256(first, 1));
    _mm_storeu_si128(to + 4, _mm256_extracti128_si256(second, 1));
    _mm_storeu_si128(to + 5, _mm256_extracti128_si256(third, 1));
}

/// Three channels of sixteen pixels, in 16 bits.
struct Channels {
    Vector r, g, b;
};

/// The fractions of the factors have 15 bits here and 16 in libjpeg. The results are the same for all 256 samples. The
/// whole parts are added: 1.402 = 1 + 0.402, 1.772 = 2 - 0.228.
HEADRACE_AVX2_INLINE Channels channels(Vector luma, Vector blue, Vector red) {
    const Vector middle = _mm256_set1_epi16(128);
    blue = _mm256_sub_epi16(blue, middle);
    red = _mm256_sub_epi16(red, middle);
    const Vector more_red = _mm256_mulhrs_epi16(red, _mm256_set1_epi16((91881 - 65536) / 2));
    const Vector less_blue = _mm256_mulhrs_epi16(blue, _mm256_set1_epi16((116130 - 131072) / 2));
    const Wide sum = Pairs(blue, red).times(-22554, 65536 - 46802);
    const Vector half = _mm256_set1_epi32(1 << 15);
    const Vector green = ended<16>({_mm256_add_epi32(sum.low, half), _mm256_add_epi32(sum.high, half)});
    return {_mm256_add_epi16(_mm256_add_epi16(luma, red), more_red),
            _mm256_add_epi16(_mm256_sub_epi16(luma, red), green),
            _mm256_add_epi16(_mm256_add_epi16(luma, less_blue), _mm256_add_epi16(blue, blue))};
}

HEADRACE_AVX2 void colours(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr, std::size_t columns,
                           std::uint8_t* rgb) {
    constexpr std::size_t together = 32;
    const Vector zero = _mm256_setzero_si256();
    for (std::size_t i = 0; i < columns; i += together, rgb += 3 * together) {
        const Vector luma = _mm256_loadu_si256(reinterpret_cast<const Vector*>(y + i));
        const Vector blue = _mm256_loadu_si256(reinterpret_cast<const Vector*>(cb + i));
        const Vector red = _mm256_loadu_si256(reinterpret_cast<const Vector*>(cr + i));
        const Channels low = channels(_mm256_unpacklo_epi8(luma, zero), _mm256_unpacklo_epi8(blue, zero),
                                      _mm256_unpacklo_epi8(red, zero));
        const Channels high = channels(_mm256_unpackhi_epi8(luma, zero), _mm256_unpackhi_epi8(blue, zero),
                                       _mm256_unpackhi_epi8(red, zero));
        const Vector r = _mm256_packus_epi16(low.r, high.r);
        const Vector g = _mm256_packus_epi16(low.g, high.g);
        const Vector b = _mm256_packus_epi16(low.b, high.b);
        if (columns - i >= together) {
            store_pixels(rgb, r, g, b);
        } else {
            std::uint8_t last[3 * together];
            store_pixels(last, r, g, b);
            std::memcpy(rgb, last, (columns - i) * 3);
        }
    }
}

} // namespace

const Kernels* vector_kernels(const Cpu& cpu) noexcept {
    const auto with = [](bool has_pext) {
        const Cpu needed{.bmi2 = true, .avx2 = true, .pext = has_pext};
        return Kernels{&transform, &transform_four, &transform_low, plain_kernels().flat,
                       &widen,     &widen_two,      &colours,       needed};
    };
    static const Kernels kernels = with(false), with_pext = with(true), with_all = with_avx512(with_pext);
    if (!cpu.avx2 || !cpu.bmi2) return nullptr;
    if (!cpu.pext) return &kernels;
    return cpu.vbmi ? &with_all : &with_pext;
}

#else

const Kernels* vector_kernels(const Cpu&) noexcept { return nullptr; }

#endif

} // namespace headrace::jpeg
