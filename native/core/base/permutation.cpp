#include "core/base/permutation.hpp"

#include <algorithm>
#include <bit>

#if defined(HEADRACE_X86)
#include <immintrin.h>
#define HEADRACE_FOR_AVX512DQ __attribute__((target("avx512f,avx512dq")))
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
      has_wide_(cpu.vbmi) {
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

// As `encrypt`, of a multiple of 32 numbers: four vectors of eight at a time, because a multiplication takes several
// cycles. On Zen 5 a whole index takes 5 ns instead of 12.
#if defined(HEADRACE_X86)
#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // GCC 12 has this complaint about its own header.
#endif
HEADRACE_FOR_AVX512DQ void Permutation::encrypt_wide(std::uint64_t* values, std::size_t count) const noexcept {
    constexpr std::size_t vectors = 4, lanes = 8;
    const __m512i left_mask = _mm512_set1_epi64(static_cast<std::int64_t>(left_mask_));
    const __m512i right_mask = _mm512_set1_epi64(static_cast<std::int64_t>(right_mask_));
    const __m512i first = _mm512_set1_epi64(static_cast<std::int64_t>(first_factor));
    const __m512i second = _mm512_set1_epi64(static_cast<std::int64_t>(second_factor));
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(right_bits_));
    for (std::size_t at = 0; at < count; at += vectors * lanes) {
        __m512i left[vectors], right[vectors];
        for (std::size_t v = 0; v < vectors; ++v) {
            const __m512i value = _mm512_loadu_si512(values + at + v * lanes);
            left[v] = _mm512_srl_epi64(value, shift);
            right[v] = _mm512_and_si512(value, right_mask);
        }
        for (std::size_t round = 0; round < rounds; ++round) {
            const bool is_even = round % 2 == 0;
            const __m512i key = _mm512_set1_epi64(static_cast<std::int64_t>(keys_[round]));
            const __m512i mask = is_even ? left_mask : right_mask;
            for (std::size_t v = 0; v < vectors; ++v) {
                __m512i& changed = is_even ? left[v] : right[v];
                const __m512i half = is_even ? right[v] : left[v];
                __m512i mixed = _mm512_mullo_epi64(_mm512_xor_si512(half, key), first);
                mixed = _mm512_xor_si512(mixed, _mm512_srli_epi64(mixed, 32));
                mixed = _mm512_srli_epi64(_mm512_mullo_epi64(mixed, second), 20);
                changed = _mm512_xor_si512(changed, _mm512_and_si512(mixed, mask));
            }
        }
        for (std::size_t v = 0; v < vectors; ++v)
            _mm512_storeu_si512(values + at + v * lanes, _mm512_or_si512(_mm512_sll_epi64(left[v], shift), right[v]));
    }
}
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#else
void Permutation::encrypt_wide(std::uint64_t*, std::size_t) const noexcept {}
#endif

std::uint64_t Permutation::operator()(std::uint64_t position) const noexcept {
    std::uint64_t value = position;
    do encrypt<1>(&value);
    while (value >= n_);
    return value;
}

// One step for all numbers, then further steps for those still outside [0, n). Eight numbers go through the network in
// parallel, as a single one would wait for each multiplication. No branch depends on a number's value.
void Permutation::walk(std::span<std::uint64_t> values) const noexcept {
    constexpr std::size_t lanes = 8, wide = 32;
    static_assert(block % wide == 0 && block <= 256);
    std::array<std::uint64_t, block> walkers{};
    std::array<std::uint8_t, block> places;
    std::ranges::copy(values, walkers.begin());
    for (std::size_t k = 0; k < values.size(); ++k) places[k] = static_cast<std::uint8_t>(k);
    for (std::size_t left = values.size(); left != 0;) {
        if (has_wide_ && left > lanes) {
            encrypt_wide(walkers.data(), (left + wide - 1) / wide * wide);
        } else {
            for (std::size_t k = 0; k < left; k += lanes) encrypt<lanes>(walkers.data() + k);
        }
        const std::size_t stepped = left;
        left = 0;
        for (std::size_t k = 0; k < stepped; ++k) {
            const std::uint64_t value = walkers[k];
            values[places[k]] = value;
            walkers[left] = value;
            places[left] = places[k];
            left += value >= n_ ? 1 : 0;
        }
    }
}

void Permutation::fill(std::uint64_t start, std::span<std::int64_t> out) const noexcept {
    std::array<std::uint64_t, block> values;
    for (std::size_t done = 0; done < out.size(); done += block) {
        const std::size_t count = std::min(block, out.size() - done);
        for (std::size_t k = 0; k < count; ++k) values[k] = start + done + k;
        walk({values.data(), count});
        std::copy_n(values.begin(), count, out.begin() + static_cast<std::ptrdiff_t>(done));
    }
}

void Permutation::at(std::span<const std::int64_t> positions, std::span<std::int64_t> out) const noexcept {
    std::array<std::uint64_t, block> values;
    for (std::size_t done = 0; done < out.size(); done += block) {
        const std::size_t count = std::min(block, out.size() - done);
        std::copy_n(positions.begin() + static_cast<std::ptrdiff_t>(done), count, values.begin());
        walk({values.data(), count});
        std::copy_n(values.begin(), count, out.begin() + static_cast<std::ptrdiff_t>(done));
    }
}

} // namespace headrace
