#include "core/engines/jpeg/kernels.hpp"

#include <algorithm>
#include <array>
#include <cstring>

// The formulas are those of the JPEG group's library: Loeffler, Ligtenberg and Moschytz's DCT of 11 multiplications
// (ICASSP 1989) in integers of 13 bits of fraction, chroma by a filter of 3/4 and 1/4, and ITU-R BT.601's colours in 16
// bits of fraction. Every constant and every rounding has to be the same for the same pixels to come out.

namespace headrace::jpeg {
namespace {

constexpr int fraction = 13;
constexpr int kept = 2; ///< Bits of fraction that stay between columns and rows.

constexpr std::int32_t fixed(double value) {
    return static_cast<std::int32_t>(value * (1 << fraction) + (value < 0 ? -0.5 : 0.5));
}

std::uint8_t clamped(std::int32_t value) { return static_cast<std::uint8_t>(std::clamp(value, 0, 255)); }

std::int16_t saturated(std::int32_t value) { return static_cast<std::int16_t>(std::clamp(value, -32768, 32767)); }

std::int16_t wrapped(std::int32_t value) { return static_cast<std::int16_t>(value); }

/// Eight numbers, `step` apart.
void transform_eight(std::int16_t* x, std::size_t step, int shift) {
    const auto in = [&](std::size_t i) -> std::int32_t { return x[i * step]; };
    const std::int32_t even_sum = wrapped(in(0) + in(4)) * (1 << fraction);
    const std::int32_t even_difference = wrapped(in(0) - in(4)) * (1 << fraction);
    const std::int32_t b = in(2) * fixed(0.541196100) + in(6) * (fixed(0.541196100) - fixed(1.847759065));
    const std::int32_t a = in(2) * (fixed(0.541196100) + fixed(0.765366865)) + in(6) * fixed(0.541196100);
    const std::array<std::int32_t, 4> even{even_sum + a, even_difference + b, even_difference - b, even_sum - a};

    const std::int32_t p = wrapped(in(7) + in(3));
    const std::int32_t q = wrapped(in(5) + in(1));
    const std::int32_t z3 = p * (fixed(1.175875602) - fixed(1.961570560)) + q * fixed(1.175875602);
    const std::int32_t z4 = p * fixed(1.175875602) + q * (fixed(1.175875602) - fixed(0.390180644));
    const std::array<std::int32_t, 4> odd{
        in(1) * (fixed(1.501321110) - fixed(0.899976223)) - in(7) * fixed(0.899976223) + z4,
        in(3) * (fixed(3.072711026) - fixed(2.562915447)) - in(5) * fixed(2.562915447) + z3,
        in(5) * (fixed(2.053119869) - fixed(2.562915447)) - in(3) * fixed(2.562915447) + z4,
        in(7) * (fixed(0.298631336) - fixed(0.899976223)) - in(1) * fixed(0.899976223) + z3,
    };
    const std::int32_t half = 1 << (shift - 1);
    for (std::size_t i = 0; i < 4; ++i) {
        x[i * step] = saturated((even[i] + odd[i] + half) >> shift);
        x[(7 - i) * step] = saturated((even[i] - odd[i] + half) >> shift);
    }
}

void transform_one(const Block& block) {
    std::array<std::int16_t, 64> x;
    for (std::size_t i = 0; i < 64; ++i) x[i] = wrapped(block.coefficients[i] * std::int32_t{block.steps[i]});
    // Where only the first row has coefficients, the library shifts it: numbers too large for 16 bits wrap, and do not
    // saturate.
    if (std::all_of(block.coefficients + 8, block.coefficients + 64, [](std::int16_t value) { return value == 0; })) {
        for (std::size_t i = 64; i-- > 0;) x[i] = wrapped(x[i % 8] * (1 << kept));
    } else {
        for (std::size_t i = 0; i < 8; ++i) transform_eight(x.data() + i, 8, fraction - kept);
    }
    for (std::size_t i = 0; i < 8; ++i) transform_eight(x.data() + i * 8, 1, fraction + kept + 3);
    for (std::size_t i = 0; i < 64; ++i) block.out[i / 8 * block.stride + i % 8] = clamped(x[i] + 128);
}

void transform(const Block& first, const Block& second) {
    transform_one(first);
    transform_one(second);
}

void transform_four(const FourBlocks& blocks) {
    for (const Block* const block : blocks) transform_one(*block);
}

void flat(const Block& block) {
    const std::int16_t mean = wrapped(block.coefficients[0] * std::int32_t{block.steps[0]});
    const std::uint8_t sample = clamped(((wrapped(mean * 4) + 16) >> 5) + 128);
    for (std::size_t i = 0; i < 8; ++i) std::memset(block.out + i * block.stride, sample, 8);
}

void widen(const std::uint8_t* row, std::size_t columns, std::uint8_t* out) {
    for (std::size_t i = 0; i < columns; ++i) {
        *out++ = static_cast<std::uint8_t>((3 * row[i] + row[static_cast<std::ptrdiff_t>(i) - 1] + 1) >> 2);
        *out++ = static_cast<std::uint8_t>((3 * row[i] + row[i + 1] + 2) >> 2);
    }
}

void widen_two(const std::uint8_t* near, const std::uint8_t* far, std::size_t columns, std::uint8_t* out) {
    const auto sum = [&](std::ptrdiff_t i) { return 3 * near[i] + far[i]; };
    const auto end = static_cast<std::ptrdiff_t>(columns);
    for (std::ptrdiff_t i = 0; i < end; ++i) {
        *out++ = static_cast<std::uint8_t>((3 * sum(i) + sum(i - 1) + 8) >> 4);
        *out++ = static_cast<std::uint8_t>((3 * sum(i) + sum(i + 1) + 7) >> 4);
    }
}

void colours(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr, std::size_t columns,
             std::uint8_t* rgb) {
    constexpr std::int32_t half = 1 << 15;
    for (std::size_t i = 0; i < columns; ++i) {
        const std::int32_t blue = cb[i] - 128;
        const std::int32_t red = cr[i] - 128;
        *rgb++ = clamped(y[i] + ((91881 * red + half) >> 16));
        *rgb++ = clamped(y[i] + ((-22554 * blue - 46802 * red + half) >> 16));
        *rgb++ = clamped(y[i] + ((116130 * blue + half) >> 16));
    }
}

constexpr Kernels plain{&transform, &transform_four, &transform_four, &flat, &widen, &widen_two, &colours, {}};

} // namespace

const Kernels& plain_kernels() noexcept { return plain; }

} // namespace headrace::jpeg
