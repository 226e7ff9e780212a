#include "core/engines/jpeg/scaled.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

// The JPEG group's library takes the accurate DCT (see kernels.cpp) and works out the means of two or four neighbours
// of its result, which needs fewer multiplications. Constants and roundings are the same here, for the same pixels.

namespace headrace::jpeg {
namespace {

constexpr int fraction = 13;
constexpr int kept = 2; ///< Bits of fraction that stay between columns and rows.

constexpr std::int64_t fixed(double value) {
    return static_cast<std::int64_t>(value * (1 << fraction) + (value < 0 ? -0.5 : 0.5));
}

std::int64_t rounded(std::int64_t value, int shift) { return (value + (std::int64_t{1} << (shift - 1))) >> shift; }

std::uint8_t sample_of(std::int64_t value) {
    return static_cast<std::uint8_t>(std::clamp<std::int64_t>(value + 128, 0, 255));
}

/// Means of eight numbers' transform: four of pairs, or two of fours. `shift` is the one of the whole transform.
template <std::size_t side> std::array<std::int64_t, side> means(const std::array<std::int64_t, 8>& x, int shift) {
    if constexpr (side == 4) {
        const std::int64_t mean = x[0] * (1 << (fraction + 1));
        const std::int64_t even = x[2] * fixed(1.847759065) - x[6] * fixed(0.765366865);
        const std::int64_t inner = x[1] * fixed(1.061594337) - x[3] * fixed(2.172734803) + x[5] * fixed(1.451774981) -
                                   x[7] * fixed(0.211164243);
        const std::int64_t outer = x[1] * fixed(2.562915447) + x[3] * fixed(0.899976223) - x[5] * fixed(0.601344887) -
                                   x[7] * fixed(0.509795579);
        return {rounded(mean + even + outer, shift + 1), rounded(mean - even + inner, shift + 1),
                rounded(mean - even - inner, shift + 1), rounded(mean + even - outer, shift + 1)};
    } else {
        const std::int64_t mean = x[0] * (1 << (fraction + 2));
        const std::int64_t odd = x[1] * fixed(3.624509785) - x[3] * fixed(1.272758580) + x[5] * fixed(0.850430095) -
                                 x[7] * fixed(0.720959822);
        return {rounded(mean + odd, shift + 2), rounded(mean - odd, shift + 2)};
    }
}

std::int64_t coefficient(const Block& block, std::size_t place) {
    return static_cast<std::int16_t>(block.coefficients[place] * std::int32_t{block.steps[place]}); // Forged: wraps.
}

template <std::size_t side> void transform_to(const Block& block) {
    std::array<std::array<std::int64_t, 8>, side> rows{};
    for (std::size_t column = 0; column < 8; ++column) {
        if (column == 4 || (side == 2 && column != 0 && column % 2 == 0)) continue; // These do not enter the means.
        std::array<std::int64_t, 8> x{};
        for (std::size_t row = 0; row < 8; ++row) x[row] = coefficient(block, row * 8 + column);
        const std::array<std::int64_t, side> y = means<side>(x, fraction - kept);
        for (std::size_t row = 0; row < side; ++row) rows[row][column] = y[row];
    }
    for (std::size_t row = 0; row < side; ++row) {
        const std::array<std::int64_t, side> y = means<side>(rows[row], fraction + kept + 3);
        for (std::size_t column = 0; column < side; ++column) {
            block.out[row * block.stride + column] = sample_of(y[column]);
        }
    }
}

} // namespace

void transform_scaled(const Block& block, std::size_t side) {
    if (side == 4) return transform_to<4>(block);
    if (side == 2) return transform_to<2>(block);
    *block.out = sample_of(rounded(coefficient(block, 0), 3));
}

void flat_scaled(const Block& block, std::size_t side) {
    const std::uint8_t sample = sample_of(rounded(coefficient(block, 0), 3));
    for (std::size_t i = 0; i < side; ++i) std::memset(block.out + i * block.stride, sample, side);
}

} // namespace headrace::jpeg
