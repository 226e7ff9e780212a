#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace headrace {

/// Rounds mantissa * 10^exponent to the nearest float, ties to even (Eisel and Lemire). Returns false where the result
/// is not a normal float or zero, or where that is not certain; the caller then takes a slower way.
[[nodiscard]] bool round_decimal(std::uint64_t mantissa, std::int64_t exponent, double& value) noexcept;
[[nodiscard]] bool round_decimal(std::uint64_t mantissa, std::int64_t exponent, float& value) noexcept;

/// The same in one way for mantissas of all sizes: faster in a column where they lie on both sides of 2^53, because
/// which way a number needs is hard to predict. NaN where that function returns false.
[[nodiscard]] double round_any_decimal(std::uint64_t mantissa, std::int64_t exponent) noexcept;

[[nodiscard]] inline bool is_digit(char byte) noexcept { return static_cast<unsigned char>(byte - '0') < 10; }

/// How many of eight bytes are digits before the first that is not; `digits` are their values, the last one on top.
[[nodiscard]] inline unsigned count_digits(std::uint64_t word, std::uint64_t& digits) noexcept {
    static_assert(std::endian::native == std::endian::little, "big-endian hosts need a byte swap here");
    word ^= 0x3030303030303030;
    const std::uint64_t others = ((word + 0x7676767676767676) | word) & 0x8080808080808080; // exact up to the first
    const unsigned count = others == 0 ? 8 : static_cast<unsigned>(std::countr_zero(others)) / 8;
    digits = count == 0 ? 0 : word << (64 - 8 * count);
    return count;
}

/// The number that eight digits make, by multiplying pairs, fours and eights.
[[nodiscard]] inline std::uint64_t join_digits(std::uint64_t digits) noexcept {
    digits = (digits & 0x0F0F0F0F0F0F0F0F) * 2561 >> 8;
    digits = (digits & 0x00FF00FF00FF00FF) * 6553601 >> 16;
    return (digits & 0x0000FFFF0000FFFF) * 42949672960001 >> 32;
}

/// Appends digits to `value`, which wraps around beyond 64 bits. Returns where they end. Takes eight at once, without a
/// branch for how many there are: in a column of numbers that is hard to predict.
[[nodiscard]] inline const char* read_digits(const char* at, const char* end, std::uint64_t& value) noexcept {
    constexpr std::uint64_t tens[] = {1, 10, 100, 1'000, 10'000, 100'000, 1'000'000, 10'000'000, 100'000'000};
    while (end - at >= 8) {
        std::uint64_t word = 0, digits = 0;
        std::memcpy(&word, at, sizeof word);
        const unsigned count = count_digits(word, digits);
        value = value * tens[count] + join_digits(digits);
        at += count;
        if (count != 8) return at;
    }
    for (; at != end && is_digit(*at); ++at) value = value * 10 + static_cast<unsigned>(*at - '0');
    return at;
}

/// Where digits end.
[[nodiscard]] inline const char* skip_digits(const char* at, const char* end) noexcept {
    while (end - at >= 8) {
        std::uint64_t word = 0, digits = 0;
        std::memcpy(&word, at, sizeof word);
        const unsigned count = count_digits(word, digits);
        at += count;
        if (count != 8) return at;
    }
    while (at != end && is_digit(*at)) ++at;
    return at;
}

} // namespace headrace
