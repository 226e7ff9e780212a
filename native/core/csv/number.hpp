#pragma once

#include <cstdint>
#include <string_view>

namespace headrace::csv {

/// What a text is as a number.
enum class NumberKind : std::uint8_t {
    none,     ///< No number.
    whole,    ///< Fits in int64.
    positive, ///< Fits in uint64 only.
    huge,     ///< Whole, and larger.
    real,     ///< Has a point, an exponent, or is infinite.
};

/// What a text is, without its value.
struct NumberFacts {
    NumberKind kind = NumberKind::none;
    bool padded =
        false; ///< Begins with a zero that says nothing: 007. A code or a phone number more likely than a number.
    bool wide = false; ///< Whole, and float64 would not hold it, or it is larger than 64 bits.
};

/// Numbers are: an optional sign, digits, perhaps a decimal mark with digits before or behind it, perhaps an exponent;
/// or inf and infinity in any case. Nothing may stand round them.
[[nodiscard]] NumberFacts facts_of(std::string_view text, char decimal) noexcept;

/// Each of these reads a number from the beginning of `text` and returns how many bytes it took, 0 where there is none
/// that fits. Floats are the nearest to the decimal, as IEEE 754 asks for. Numbers too large for the type do not fit;
/// those too small are zero.
[[nodiscard]] std::size_t read_int64(std::string_view text, std::int64_t& value) noexcept;
[[nodiscard]] std::size_t read_uint64(std::string_view text, std::uint64_t& value) noexcept;
[[nodiscard]] std::size_t read_float64(std::string_view text, char decimal, double& value);
[[nodiscard]] std::size_t read_float32(std::string_view text, char decimal, float& value);

/// Writes a number at `to`, where there is room for `most_digits`, and returns its end. Floats are the shortest text
/// that reads back as the same float, in the form of Python's repr; "nan", "inf" and "-inf" stand for what is no
/// number.
inline constexpr std::size_t most_digits = 40;
[[nodiscard]] char* write_float64(char* to, double value, char decimal) noexcept;
[[nodiscard]] char* write_float32(char* to, float value, char decimal) noexcept;

} // namespace headrace::csv
