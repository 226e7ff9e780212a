#include "core/base/permutation.hpp"

#include <algorithm>
#include <bit>

#if defined(HEADRACE_X86)
#include <immintrin.h>
#define HEADRACE_FOR_IFMA __attribute__((target("avx512f,avx512dq,avx512ifma")))
#define HEADRACE_FOR_AVX2 __attribute__((target("avx2")))
#endif

namespace headrace {
namespace {

// The finaliser of SplitMix64 (Steele, Lea, Flood, 2014): every bit of the result depends on every bit of the value.
constexpr std::uint64_t mix(std::uint64_t value) noexcept {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
    return value ^ (value >> 31);
}

constexpr std::uint64_t golden = 0x9E3779B97F4A7C15;

// With fewer bits, the halves are too small for the network to mix well, and walking a cycle of a thousand numbers is
// cheap.
constexpr unsigned least_bits = 10;

// Multiplication carries low bits upwards; folding the product brings the high bits back down.
constexpr std::uint64_t first_factor = 0xD6E8FEB86659FD93, second_factor = 0xA0761D6478BD642F;

constexpr std::uint64_t scramble(std::uint64_t half, std::uint64_t key) noexcept {
    std::uint64_t mixed = (half ^ key) * first_factor;
    mixed ^= mixed >> 32;
    return mixed * second_factor >> 20;
}

} // namespace

Permutation::Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch, const Cpu& cpu) noexcept
    : n_(n),
      has_wide_(cpu.ifma),
      has_avx2_(cpu.avx2) {
    // The halves of an odd number of bits differ by one. n is always more than half of the network's range, so a walk
    // takes two steps on average at worst.
    const unsigned bits = std::max(least_bits, static_cast<unsigned>(std::bit_width(n - 1)));
    right_bits_ = (bits + 1) / 2;
    right_mask_ = (std::uint64_t{1} << right_bits_) - 1;
    left_mask_ = (std::uint64_t{1} << (bits - right_bits_)) - 1;
    // Each part is mixed before the next is added, so that (seed, epoch + 1) and (seed + 1, epoch) are unrelated.
    std::uint64_t state = mix(mix(mix(seed + golden) + epoch + golden) + n + golden);
    for (std::uint64_t& key : keys_) key = mix(state += golden);
}

template <std::size_t lanes> void Permutation::encrypt(std::uint64_t* values) const noexcept {
    std::array<std::uint64_t, lanes> left;
    std::array<std::uint64_t, lanes> right;
    for (std::size_t k = 0; k < lanes; ++k) left[k] = values[k] >> right_bits_;
    for (std::size_t k = 0; k < lanes; ++k) right[k] = values[k] & right_mask_;
    for (std::size_t round = 0; round < rounds; round += 2) {
        for (std::size_t k = 0; k < lanes; ++k) left[k] ^= scramble(right[k], keys_[round]) & left_mask_;
        for (std::size_t k = 0; k < lanes; ++k) right[k] ^= scramble(left[k], keys_[round + 1]) & right_mask_;
    }
    for (std::size_t k = 0; k < lanes; ++k) values[k] = left[k] << right_bits_ | right[k];
}

#if defined(HEADRACE_X86)
#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // GCC 12 has these complaints about its own header.
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
namespace {

HEADRACE_FOR_IFMA __m512i eight_of(std::uint64_t value) noexcept {
    return _mm512_set1_epi64(static_cast<std::int64_t>(value));
}

} // namespace

// As `encrypt`, of several vectors of eight at a time, because a multiplication takes several cycles. A product of 64
// bits takes three multiplications of the processor, so neither product is one. A half has at most 31 bits: only the
// lower part of the key changes it, and what the upper part adds to the product is the same for all. Of the second
// product, bits 20 to 50 count, which the 52 lowest bits of its factors determine.
template <std::size_t vectors>
HEADRACE_FOR_IFMA void Permutation::encrypt_vectors(std::uint64_t* values) const noexcept {
    constexpr std::size_t lanes = 8;
    const __m512i first_low = eight_of(first_factor), first_high = eight_of(first_factor >> 32);
    const __m512i second = eight_of(second_factor & ((std::uint64_t{1} << 52) - 1));
    const __m512i left_mask = eight_of(left_mask_), right_mask = eight_of(right_mask_);
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(right_bits_));
    __m512i left[vectors], right[vectors];
    for (std::size_t v = 0; v < vectors; ++v) {
        const __m512i value = _mm512_loadu_si512(values + v * lanes);
        left[v] = _mm512_srl_epi64(value, shift);
        right[v] = _mm512_and_si512(value, right_mask);
    }
    const auto change = [&](__m512i* changed, const __m512i* halves, std::uint64_t key, std::uint64_t half_mask,
                            __m512i mask) HEADRACE_FOR_IFMA {
        constexpr auto low_to_high = static_cast<_MM_PERM_ENUM>(0x80), high_to_low = static_cast<_MM_PERM_ENUM>(0x31);
        const __m512i low_key = eight_of(key & half_mask), added = eight_of((key & ~half_mask) * first_factor);
        for (std::size_t v = 0; v < vectors; ++v) {
            const __m512i keyed = _mm512_xor_si512(halves[v], low_key);
            const __m512i low = _mm512_mul_epu32(keyed, first_low), high = _mm512_mul_epu32(keyed, first_high);
            __m512i mixed =
                _mm512_add_epi64(_mm512_add_epi64(low, added), _mm512_maskz_shuffle_epi32(0xAAAA, high, low_to_high));
            mixed = _mm512_xor_si512(mixed, _mm512_maskz_shuffle_epi32(0x5555, mixed, high_to_low));
            mixed = _mm512_srli_epi64(_mm512_madd52lo_epu64(_mm512_setzero_si512(), mixed, second), 20);
            changed[v] = _mm512_xor_si512(changed[v], _mm512_and_si512(mixed, mask));
        }
    };
    for (std::size_t round = 0; round < rounds; round += 2) {
        change(left, right, keys_[round], right_mask_, left_mask);
        change(right, left, keys_[round + 1], left_mask_, right_mask);
    }
    for (std::size_t v = 0; v < vectors; ++v)
        _mm512_storeu_si512(values + v * lanes, _mm512_or_si512(_mm512_sll_epi64(left[v], shift), right[v]));
}

// Writes eight numbers at a time behind those found, and counts only those outside.
HEADRACE_FOR_IFMA std::size_t Permutation::find_outside_wide(const std::uint64_t* values, std::size_t count,
                                                             Walkers& found) const noexcept {
    constexpr std::size_t lanes = 8;
    const __m512i limit = eight_of(n_);
    __m512i place = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    std::size_t outside = 0;
    for (std::size_t k = 0; k < count; k += lanes) {
        const __m512i value = _mm512_loadu_si512(values + k);
        __mmask8 is_outside = _mm512_cmpge_epu64_mask(value, limit);
        if (count - k < lanes) is_outside &= static_cast<__mmask8>((1U << (count - k)) - 1);
        _mm512_storeu_si512(found.values.data() + outside, _mm512_maskz_compress_epi64(is_outside, value));
        _mm512_storeu_si512(found.places.data() + outside, _mm512_maskz_compress_epi64(is_outside, place));
        outside += static_cast<std::size_t>(std::popcount(static_cast<unsigned>(is_outside)));
        place = _mm512_add_epi64(place, eight_of(lanes));
    }
    return outside;
}
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

namespace {

HEADRACE_FOR_AVX2 __m256i four_of(std::uint64_t value) noexcept {
    return _mm256_set1_epi64x(static_cast<std::int64_t>(value));
}

} // namespace

// As `encrypt_vectors`, of vectors of four. If both halves are `narrow`, at most 12 bits, bits 20 to 31 of the second
// product count, which the lower halves of its factors determine.
template <std::size_t vectors, bool narrow>
HEADRACE_FOR_AVX2 void Permutation::encrypt_avx2(std::uint64_t* values) const noexcept {
    constexpr std::size_t lanes = 4;
    const __m256i first_low = four_of(first_factor), first_high = four_of(first_factor >> 32);
    const __m256i second_low = four_of(second_factor), second_high = four_of(second_factor >> 32);
    const __m256i left_mask = four_of(left_mask_), right_mask = four_of(right_mask_);
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(right_bits_));
    __m256i left[vectors], right[vectors];
    for (std::size_t v = 0; v < vectors; ++v) {
        const __m256i value = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + v * lanes));
        left[v] = _mm256_srl_epi64(value, shift);
        right[v] = _mm256_and_si256(value, right_mask);
    }
    const auto change = [&](__m256i* changed, const __m256i* halves, std::uint64_t key, std::uint64_t half_mask,
                            __m256i mask) HEADRACE_FOR_AVX2 {
        const __m256i low_key = four_of(key & half_mask), added = four_of((key & ~half_mask) * first_factor);
        for (std::size_t v = 0; v < vectors; ++v) {
            const __m256i keyed = _mm256_xor_si256(halves[v], low_key);
            const __m256i low = _mm256_mul_epu32(keyed, first_low), high = _mm256_mul_epu32(keyed, first_high);
            __m256i mixed = _mm256_add_epi64(_mm256_add_epi64(low, added), _mm256_slli_epi64(high, 32));
            const __m256i upper = _mm256_srli_epi64(mixed, 32);
            mixed = _mm256_xor_si256(mixed, upper);
            __m256i product = _mm256_mul_epu32(mixed, second_low);
            if constexpr (!narrow) {
                const __m256i crossed =
                    _mm256_add_epi64(_mm256_mul_epu32(mixed, second_high), _mm256_mul_epu32(upper, second_low));
                product = _mm256_add_epi64(product, _mm256_slli_epi64(crossed, 32));
            }
            changed[v] = _mm256_xor_si256(changed[v], _mm256_and_si256(_mm256_srli_epi64(product, 20), mask));
        }
    };
    for (std::size_t round = 0; round < rounds; round += 2) {
        change(left, right, keys_[round], right_mask_, left_mask);
        change(right, left, keys_[round + 1], left_mask_, right_mask);
    }
    for (std::size_t v = 0; v < vectors; ++v)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(values + v * lanes),
                            _mm256_or_si256(_mm256_sll_epi64(left[v], shift), right[v]));
}

template <bool narrow>
HEADRACE_FOR_AVX2 void Permutation::step_avx2(std::uint64_t* values, std::size_t count) const noexcept {
    constexpr std::size_t lanes = 4, wide = 16;
    std::size_t done = 0;
    for (; done + 2 * lanes < count; done += wide) encrypt_avx2<wide / lanes, narrow>(values + done);
    for (; done < count; done += lanes) encrypt_avx2<1, narrow>(values + done);
}
#endif

std::uint64_t Permutation::operator()(std::uint64_t position) const noexcept {
    std::uint64_t value = position;
    do encrypt<1>(&value);
    while (value >= n_);
    return value;
}

// One step for `count` numbers. Eight or more go through the network in parallel, as a single one would wait for each
// multiplication, so up to `spare` places behind the last one change.
void Permutation::step(std::uint64_t* values, std::size_t count) const noexcept {
    constexpr std::size_t lanes = 8, wide = 64;
    static_assert(spare >= wide);
    std::fill_n(values + count, spare, 0);
    std::size_t done = 0;
#if defined(HEADRACE_X86)
    if (has_wide_) {
        for (; done + 2 * lanes < count; done += wide) encrypt_vectors<wide / lanes>(values + done);
        for (; done < count; done += lanes) encrypt_vectors<1>(values + done);
    } else if (has_avx2_) {
        constexpr unsigned narrow_bits = 12;
        if (right_bits_ <= narrow_bits) step_avx2<true>(values, count);
        else step_avx2<false>(values, count);
        return;
    }
#endif
    for (; done < count; done += lanes) encrypt<lanes>(values + done);
}

// One step for all numbers, then further steps for those still outside [0, n). No branch depends on a number's value.
void Permutation::walk(std::uint64_t* values, std::size_t count) const noexcept {
    step(values, count);
    Walkers walkers;
    std::size_t left = 0;
#if defined(HEADRACE_X86)
    if (has_wide_) left = find_outside_wide(values, count, walkers);
    else
#endif
        for (std::size_t k = 0; k < count; ++k) {
            walkers.values[left] = values[k];
            walkers.places[left] = k;
            left += values[k] >= n_ ? 1 : 0;
        }
    while (left != 0) {
        step(walkers.values.data(), left);
        const std::size_t stepped = left;
        left = 0;
        for (std::size_t k = 0; k < stepped; ++k) {
            const std::uint64_t value = walkers.values[k], place = walkers.places[k];
            values[place] = value;
            walkers.values[left] = value;
            walkers.places[left] = place;
            left += value >= n_ ? 1 : 0;
        }
    }
}

void Permutation::fill(std::uint64_t start, std::span<std::int64_t> out) const noexcept {
    std::array<std::uint64_t, block + spare> values;
    for (std::size_t done = 0; done < out.size(); done += block) {
        const std::size_t count = std::min(block, out.size() - done);
        for (std::size_t k = 0; k < count; ++k) values[k] = start + done + k;
        walk(values.data(), count);
        std::copy_n(values.begin(), count, out.begin() + static_cast<std::ptrdiff_t>(done));
    }
}

void Permutation::at(std::span<const std::int64_t> positions, std::span<std::int64_t> out) const noexcept {
    std::array<std::uint64_t, block + spare> values;
    for (std::size_t done = 0; done < out.size(); done += block) {
        const std::size_t count = std::min(block, out.size() - done);
        std::copy_n(positions.begin() + static_cast<std::ptrdiff_t>(done), count, values.begin());
        walk(values.data(), count);
        std::copy_n(values.begin(), count, out.begin() + static_cast<std::ptrdiff_t>(done));
    }
}

} // namespace headrace
