#include "core/permutation.hpp"

#include <algorithm>
#include <bit>

namespace penstock {
namespace {

// The finaliser of SplitMix64 (Steele, Lea, Flood, 2014): every bit of the result depends on every bit of the value.
constexpr std::uint64_t mix(std::uint64_t value) noexcept {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
    return value ^ (value >> 31);
}

constexpr std::uint64_t golden = 0x9E3779B97F4A7C15;

// At least ten bits: on fewer, the halves are too small for the network to mix well, and walking a cycle of a
// thousand numbers costs little.
constexpr unsigned least_half_bits = 5;

} // namespace

Permutation::Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch) noexcept : n_(n) {
    half_bits_ = std::max(least_half_bits, (static_cast<unsigned>(std::bit_width(n - 1)) + 1) / 2);
    half_mask_ = (std::uint64_t{1} << half_bits_) - 1;
    // Each part goes through the mixer before the next is added, so that (seed, epoch + 1) and (seed + 1, epoch)
    // have nothing in common.
    std::uint64_t state = mix(mix(mix(seed + golden) + epoch + golden) + n + golden);
    for (std::uint64_t& key : keys_) key = mix(state += golden);
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const noexcept {
    std::uint64_t left = value >> half_bits_;
    std::uint64_t right = value & half_mask_;
    for (std::size_t round = 0; round < rounds; round += 2) {
        // A multiplication carries low bits upwards; folding the product brings the high ones back down.
        std::uint64_t mixed = (right ^ keys_[round]) * 0xD6E8FEB86659FD93;
        mixed ^= mixed >> 32;
        left ^= (mixed * 0xA0761D6478BD642F >> 20) & half_mask_;
        mixed = (left ^ keys_[round + 1]) * 0xD6E8FEB86659FD93;
        mixed ^= mixed >> 32;
        right ^= (mixed * 0xA0761D6478BD642F >> 20) & half_mask_;
    }
    return left << half_bits_ | right;
}

std::uint64_t Permutation::operator()(std::uint64_t position) const noexcept {
    std::uint64_t value = position;
    do value = encrypt(value);
    while (value >= n_);
    return value;
}

void Permutation::fill(std::uint64_t start, std::span<std::int64_t> out) const noexcept {
    // Eight at a time, so that the multiplications of one overlap with those of the others; who is still outside
    // [0, n) walks on alone.
    constexpr std::size_t lanes = 8;
    std::size_t i = 0;
    for (; i + lanes <= out.size(); i += lanes) {
        std::array<std::uint64_t, lanes> values;
        for (std::size_t k = 0; k < lanes; ++k) values[k] = encrypt(start + i + k);
        for (std::size_t k = 0; k < lanes; ++k) {
            while (values[k] >= n_) values[k] = encrypt(values[k]);
            out[i + k] = static_cast<std::int64_t>(values[k]);
        }
    }
    for (; i < out.size(); ++i) out[i] = static_cast<std::int64_t>((*this)(start + i));
}

} // namespace penstock
