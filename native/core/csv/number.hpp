#pragma once

#include <cstdint>
#include <string_view>

namespace headrace::csv {

/// The smallest category that fits a number.
enum class NumberKind : std::uint8_t {
    none,     ///< Not a number.
    whole,    ///< Fits in int64.
    positive, ///< Fits in uint64 only.
    huge,     ///< An integer beyond 64 bits.
    real,     ///< Has a decimal mark or an exponent, or is infinite.
};

/// What a number looks like, without its value.
struct NumberFacts {
    NumberKind kind = NumberKind::none;
    bool padded = false; ///< Has a superfluous leading zero (007): rather a code or a phone number.
    bool wide = false;   ///< An integer that float64 cannot represent, or one beyond 64 bits.
};

/// A number is an optional sign, digits with an optional decimal mark before, among or after them, and an optional
/// exponent; or inf or infinity in any case. Surrounding blanks are not allowed.
[[nodiscard]] NumberFacts facts_of(std::string_view text, char decimal) noexcept;

/// The same for a plain number at the start of `text`; its size in `size`. Leaves others, with size 0, to facts_of:
/// whole parts of more than 18 digits, exponents of more than two, infinity.
[[nodiscard]] NumberFacts plain_facts_of(std::string_view text, char decimal, std::size_t& size) noexcept;

/// Each of these reads a number at the start of `text` and returns how many bytes it takes; 0 if there is none, or if
/// it does not fit. Floats are rounded to nearest (IEEE 754). Numbers too large for the type do not fit; numbers too
/// small become zero.
[[nodiscard]] std::size_t read_int64(std::string_view text, std::int64_t& value) noexcept;
[[nodiscard]] std::size_t read_uint64(std::string_view text, std::uint64_t& value) noexcept;
[[nodiscard]] std::size_t read_float64(std::string_view text, char decimal, double& value);
[[nodiscard]] std::size_t read_float32(std::string_view text, char decimal, float& value);

/// Writes a number at `to` and returns its end; the caller provides `most_digits` bytes. A float becomes the shortest
/// text that reads back as the same float, formatted like Python's repr. NaN and infinities become "nan", "inf" and
/// "-inf".
inline constexpr std::size_t most_digits = 40;
[[nodiscard]] char* write_float64(char* to, double value, char decimal) noexcept;
[[nodiscard]] char* write_float32(char* to, float value, char decimal) noexcept;

} // namespace headrace::csv
