#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/csv/value.hpp"
#include "core/text/decimal.hpp"

/// Values whose size is known, in their plainest form. Each function returns false for any other form, which the slower
/// ways read.
namespace headrace::csv {

/// Bytes from the start of a value that these functions may read.
inline constexpr std::ptrdiff_t plain_readable = 40;

namespace plain {

inline constexpr std::uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
inline constexpr std::size_t most_digits_read = 19; // they always fit in 64 bits

inline constexpr std::array<std::uint64_t, most_digits_read + 1> tens = [] {
    std::array<std::uint64_t, most_digits_read + 1> powers{1};
    for (std::size_t k = 1; k < powers.size(); ++k) powers[k] = 10 * powers[k - 1];
    return powers;
}();

/// The number in `size` bytes (1 to 8), all of which must be digits.
[[nodiscard]] inline bool read_eight(const char* at, std::size_t size, std::uint64_t& value) noexcept {
    static_assert(std::endian::native == std::endian::little, "big-endian hosts need a byte swap here");
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    const auto shift = static_cast<unsigned>(64 - 8 * size);
    word = word << shift ^ (0x30 * ones) << shift;
    value = join_digits(word);
    return (((word + 0x76 * ones) | word) & tops) == 0;
}

/// The number in `size` bytes (1 to 19), all of which must be digits.
[[nodiscard]] inline bool read_all(const char* at, std::size_t size, std::uint64_t& value) noexcept {
    if (size <= 8) return read_eight(at, size, value);
    std::uint64_t more = 0;
    bool good = read_eight(at, 8, value);
    const std::size_t second = std::min<std::size_t>(size - 8, 8);
    good &= read_eight(at + 8, second, more);
    value = value * tens[second] + more;
    if (size <= 16) return good;
    good &= read_eight(at + 16, size - 16, more);
    value = value * tens[size - 16] + more;
    return good;
}

} // namespace plain

/// A plain integer: digits, perhaps after a minus sign.
template <Kind kind>
[[nodiscard]] bool read_plain_whole(const char* at, std::size_t size, std::uint64_t& bits) noexcept {
    const bool negative = *at == '-';
    at += negative;
    size -= negative;
    if (size - 1 >= plain::most_digits_read || !plain::read_all(at, size, bits)) return false;
    if constexpr (kind == Kind::uint64) return !negative || bits == 0;
    constexpr std::uint64_t half = std::uint64_t{1} << 63;
    if (bits >= half) return false;
    bits = negative ? 0 - bits : bits;
    return true;
}

/// A plain decimal: digits, perhaps after a minus sign and with a decimal mark among them.
struct PlainDecimal {
    std::uint64_t mantissa = 0;
    std::size_t fraction = 0; ///< Digits after the mark.
    bool negative = false;

    [[nodiscard]] bool read(const char* at, std::size_t size, char mark) noexcept {
        negative = *at == '-';
        at += negative;
        size -= negative;
        std::uint64_t word = 0;
        std::memcpy(&word, at, sizeof word);
        word ^= plain::ones * static_cast<unsigned char>(mark);
        const std::uint64_t marks = (word - plain::ones) & ~word & plain::tops; // exact up to the first
        const auto whole = static_cast<std::size_t>(std::countr_zero(marks)) / 8;
        if (whole >= size) { // no mark; in the first eight bytes, at least
            fraction = 0;
            return size - 1 < 8 && plain::read_eight(at, size, mantissa);
        }
        fraction = size - whole - 1;
        if (whole >= 8 || fraction - 1 >= plain::most_digits_read - whole) return false;
        std::uint64_t after = 0;
        mantissa = 0;
        const bool good = whole == 0 || plain::read_eight(at, whole, mantissa);
        if (!plain::read_all(at + whole + 1, fraction, after)) return false;
        mantissa = mantissa * plain::tens[fraction] + after;
        return good;
    }

    /// The nearest float. False leaves it to the slower way.
    [[nodiscard]] bool round(double& value) const noexcept {
        static constexpr double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,
                                            1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19};
        constexpr std::uint64_t exact = std::uint64_t{1} << 53;
        if (mantissa <= exact) value = static_cast<double>(mantissa) / powers[fraction];
        else if (!round_decimal(mantissa, -static_cast<std::int64_t>(fraction), value)) return false;
        value = negative ? -value : value;
        return true;
    }

    [[nodiscard]] bool round(float& value) const noexcept {
        if (!round_decimal(mantissa, -static_cast<std::int64_t>(fraction), value)) return false;
        value = negative ? -value : value;
        return true;
    }
};

/// The first eight bytes of a text, after it zeros.
[[nodiscard]] constexpr std::uint64_t word_of(std::string_view text) noexcept {
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < text.size(); ++i) word |= std::uint64_t{static_cast<unsigned char>(text[i])} << 8 * i;
    return word;
}

/// A truth value, without a branch for each word.
[[nodiscard]] inline bool read_plain_truth(const char* at, std::size_t size, std::uint64_t& bits) noexcept {
    if (size - 4 > 1) return false;
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    word &= ~std::uint64_t{0} >> (64 - 8 * size);
    const auto is = [word](std::string_view text) { return static_cast<unsigned>(word == word_of(text)); };
    const unsigned yes = is("True") | is("true") | is("TRUE"), no = is("False") | is("false") | is("FALSE");
    bits = yes;
    return (size == 4 ? yes : no) != 0; // A value that ends in a zero has the bytes of a shorter word.
}

} // namespace headrace::csv
