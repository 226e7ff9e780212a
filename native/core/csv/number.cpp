#include "core/csv/number.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <clocale>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

namespace headrace::csv {
namespace {

bool is_digit(char byte) noexcept { return static_cast<unsigned char>(byte - '0') < 10; }
char lower(char byte) noexcept { return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + 32) : byte; }

/// A parsed decimal number: `mantissa` (its first 19 significant digits) times 10^`exponent`.
struct Parts {
    bool negative = false;
    bool infinite = false;
    bool whole = true; ///< No decimal mark and no exponent.
    bool padded = false;
    std::uint64_t mantissa = 0;
    std::int64_t exponent = 0;
    std::size_t size = 0; ///< In bytes; 0: not a number.
};

std::size_t infinity_at(const char* at, const char* end) noexcept {
    constexpr std::string_view word = "infinity";
    std::size_t same = 0;
    while (same < word.size() && at + same != end && lower(at[same]) == word[same]) ++same;
    return same == word.size() ? word.size() : same >= 3 ? 3 : 0;
}

/// Parses eight digits at once, by multiplying pairs, fours and eights.
bool eight_digits(const char* at, std::uint64_t& value) noexcept {
    static_assert(std::endian::native == std::endian::little, "big-endian hosts need a byte swap here");
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    if (((word & 0xF0F0F0F0F0F0F0F0) | (((word + 0x0606060606060606) & 0xF0F0F0F0F0F0F0F0) >> 4)) != 0x3333333333333333)
        return false;
    word = (word & 0x0F0F0F0F0F0F0F0F) * 2561 >> 8;
    word = (word & 0x00FF00FF00FF00FF) * 6553601 >> 16;
    value = (word & 0x0000FFFF0000FFFF) * 42949672960001 >> 32;
    return true;
}

/// Reads digits and keeps the first 19 significant ones.
class Digits {
  public:
    explicit Digits(Parts& parts) noexcept : parts_(parts) {}

    const char* read(const char* at, const char* end, bool fraction) noexcept {
        std::uint64_t eight = 0;
        while (end - at >= 8 && parts_.mantissa < 10'000'000'000 && eight_digits(at, eight)) {
            parts_.mantissa = parts_.mantissa * 100'000'000 + eight;
            if (fraction) parts_.exponent -= 8;
            at += 8;
        }
        for (; at != end && is_digit(*at); ++at) {
            if (parts_.mantissa < 1'000'000'000'000'000'000) {
                parts_.mantissa = parts_.mantissa * 10 + static_cast<unsigned>(*at - '0');
                if (fraction) --parts_.exponent;
            } else {
                if (!fraction) ++parts_.exponent;
            }
        }
        return at;
    }

  private:
    Parts& parts_;
};

const char* exponent_at(const char* at, const char* end, Parts& parts) noexcept {
    const char* digits = at + 1;
    const bool negative = digits != end && *digits == '-';
    if (digits != end && (*digits == '-' || *digits == '+')) ++digits;
    if (digits == end || !is_digit(*digits)) return at;
    std::int64_t value = 0;
    for (; digits != end && is_digit(*digits); ++digits)
        if (value < 1'000'000) value = value * 10 + (*digits - '0'); // Larger exponents all mean the same.
    parts.exponent += negative ? -value : value;
    parts.whole = false;
    return digits;
}

Parts parts_of(std::string_view text, char decimal) noexcept {
    Parts parts;
    const char* const begin = text.data();
    const char* const end = begin + text.size();
    const char* at = begin;
    if (at != end && (*at == '-' || *at == '+')) parts.negative = *at++ == '-';
    const char* const digits = at;
    Digits reader(parts);
    at = reader.read(at, end, false);
    std::ptrdiff_t count = at - digits;
    parts.padded = count > 1 && *digits == '0';
    if (at != end && *at == decimal) {
        const char* const fraction = at + 1;
        const char* const stop = reader.read(fraction, end, true);
        if (count != 0 || stop != fraction) {
            count += stop - fraction;
            at = stop;
            parts.whole = false;
        }
    }
    if (count == 0) {
        const std::size_t word = infinity_at(at, end);
        parts.infinite = word != 0;
        parts.whole = false;
        parts.size = word == 0 ? 0 : static_cast<std::size_t>(at - begin) + word;
        return parts;
    }
    if (at != end && lower(*at) == 'e') at = exponent_at(at, end, parts);
    parts.size = static_cast<std::size_t>(at - begin);
    return parts;
}

#if defined(__cpp_lib_to_chars)
using std::from_chars;
#else
/// For standard libraries without from_chars for floats. strtod rounds correctly too, but needs the locale's decimal
/// mark and a terminating zero, and accepts hexadecimal numbers and NaN, which parts_of rejects.
template <typename T> std::from_chars_result from_chars(const char* begin, const char* end, T& value) {
    const Parts parts = parts_of({begin, static_cast<std::size_t>(end - begin)}, '.');
    std::string text(begin, parts.size);
    std::ranges::replace(text, '.', *std::localeconv()->decimal_point);
    if (text.empty()) return {begin, std::errc::invalid_argument};
    if constexpr (sizeof(T) == sizeof(double)) value = std::strtod(text.c_str(), nullptr);
    else value = std::strtof(text.c_str(), nullptr);
    const bool beyond = std::isinf(value) && !parts.infinite;
    return {begin + text.size(), beyond ? std::errc::result_out_of_range : std::errc{}};
}
#endif

/// Reads a number without a plus sign, with a point as decimal mark.
template <typename T> std::size_t read_plain(const char* begin, const char* end, T& value) {
    const auto [stop, error] = from_chars(begin, end, value);
    if (error == std::errc{}) return std::isnan(value) ? 0 : static_cast<std::size_t>(stop - begin);
    if (error == std::errc::invalid_argument) return 0;
    const Parts parts = parts_of({begin, end}, '.');
    if (parts.exponent > 0) return 0;
    value = parts.negative ? -T{0} : T{0};
    return static_cast<std::size_t>(stop - begin);
}

/// Whether a number overflows float64. Digits after the nineteenth make no difference.
bool is_beyond_float64(const Parts& parts) noexcept {
    constexpr std::uint64_t least = 1'000'000'000'000'000'000; // of nineteen digits
    constexpr std::uint64_t most = 1'797'693'134'862'315'807;  // 2^1024 - 2^970: from here on, rounding gives infinity
    constexpr std::int64_t most_exponent = 290;
    if (parts.infinite || parts.mantissa == 0 || parts.exponent < most_exponent - 20) return false;
    std::uint64_t mantissa = parts.mantissa;
    std::int64_t exponent = parts.exponent;
    for (; mantissa < least; mantissa *= 10) --exponent;
    if (mantissa / 10 >= least) {
        mantissa /= 10;
        ++exponent;
    }
    return exponent > most_exponent || (exponent == most_exponent && mantissa > most);
}

/// If mantissa and power of ten are exact floats, their product or quotient is rounded only once (Clinger 1990).
template <typename T> bool product_of(const Parts& parts, T& value) noexcept {
    constexpr std::uint64_t most = std::uint64_t{1} << std::numeric_limits<T>::digits;
    constexpr std::array<T, 11> powers{1, 1e1F, 1e2F, 1e3F, 1e4F, 1e5F, 1e6F, 1e7F, 1e8F, 1e9F, 1e10F};
    if (parts.size == 0 || parts.infinite || parts.mantissa > most || parts.exponent > 10 || parts.exponent < -10)
        return false;
    value = static_cast<T>(parts.mantissa);
    if (parts.exponent < 0) value /= powers[static_cast<std::size_t>(-parts.exponent)];
    else value *= powers[static_cast<std::size_t>(parts.exponent)];
    if (parts.negative) value = -value;
    return true;
}

template <typename T> std::size_t read_float(std::string_view text, char decimal, T& value) {
    const std::size_t plus = !text.empty() && text.front() == '+' ? 1 : 0;
    if (plus != 0 && text.size() > 1 && (text[1] == '-' || text[1] == '+')) return 0;
    text.remove_prefix(plus);
    std::size_t size = 0;
    if (decimal == '.') {
        size = read_plain(text.data(), text.data() + text.size(), value);
    } else if (const Parts parts = parts_of(text, decimal); product_of(parts, value)) {
        size = parts.size;
    } else {
        std::string copy(text.substr(0, parts.size));
        std::ranges::replace(copy, decimal, '.');
        size = read_plain(copy.data(), copy.data() + copy.size(), value);
    }
    return size == 0 ? 0 : plus + size;
}

/// Reads unsigned digits; false if the value exceeds 64 bits.
bool magnitude(std::string_view digits, std::uint64_t& value) noexcept {
    const auto found = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return found.ec == std::errc{} && found.ptr == digits.data() + digits.size();
}

/// Whether the number fits in the 53 bits of a float64.
bool is_float64(std::uint64_t value) noexcept {
    return value == 0 || static_cast<int>(std::bit_width(value)) - std::countr_zero(value) <= 53;
}

std::string_view digits_at(std::string_view text, bool& negative) noexcept {
    negative = !text.empty() && text.front() == '-';
    if (negative || (!text.empty() && text.front() == '+')) text.remove_prefix(1);
    std::size_t count = 0;
    while (count < text.size() && is_digit(text[count])) ++count;
    return text.substr(0, count);
}

#if defined(__cpp_lib_to_chars)
template <typename T> char* shortest(char* to, T value, bool scientific) noexcept {
    const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
    return std::to_chars(to, to + most_digits, value, format).ptr;
}
#else
template <typename T> char* shortest(char* to, T value, bool scientific) noexcept {
    for (int digits = 1; digits <= std::numeric_limits<T>::max_digits10; ++digits) {
        char text[64];
        std::snprintf(text, sizeof text, "%.*e", digits - 1, static_cast<double>(value));
        T back = 0;
        for (char& byte : text)
            if (byte == *std::localeconv()->decimal_point) byte = '.';
        (void)from_chars(text, text + std::strlen(text), back);
        if (back != value) continue;
        if (scientific) return static_cast<char*>(std::memcpy(to, text, std::strlen(text))) + std::strlen(text);
        const int exponent = std::atoi(std::strchr(text, 'e') + 1);
        std::snprintf(text, sizeof text, "%.*f", digits - 1 > exponent ? digits - 1 - exponent : 0,
                      static_cast<double>(value));
        return static_cast<char*>(std::memcpy(to, text, std::strlen(text))) + std::strlen(text);
    }
    return to;
}
#endif

template <typename T> char* write_float(char* to, T value, char decimal) noexcept {
    if (std::isnan(value)) return std::ranges::copy(std::string_view("nan"), to).out;
    if (std::isinf(value)) {
        if (value < 0) *to++ = '-';
        return std::ranges::copy(std::string_view("inf"), to).out;
    }
    const double size = std::abs(static_cast<double>(value));
    const bool scientific = size != 0 && (size < 1e-4 || size >= 1e16); // where Python's repr switches
    char* const end = shortest(to, value, scientific);
    char* const point = static_cast<char*>(std::memchr(to, '.', static_cast<std::size_t>(end - to)));
    if (point != nullptr) *point = decimal;
    if (point != nullptr || scientific) return end;
    end[0] = decimal; // Marks it as a float.
    end[1] = '0';
    return end + 2;
}

} // namespace

NumberFacts facts_of(std::string_view text, char decimal) noexcept {
    const Parts parts = parts_of(text, decimal);
    if (parts.size == 0 || parts.size != text.size()) return {};
    if (!parts.whole && is_beyond_float64(parts)) return {};
    if (!parts.whole) return {NumberKind::real, parts.padded, false};
    bool negative = false;
    std::uint64_t value = 0;
    if (!magnitude(digits_at(text, negative), value)) return {NumberKind::huge, parts.padded, true};
    constexpr std::uint64_t half = std::uint64_t{1} << 63;
    const NumberKind kind = value < half || (negative && value == half) ? NumberKind::whole
                            : negative                                  ? NumberKind::huge
                                                                        : NumberKind::positive;
    return {kind, parts.padded, !is_float64(value)};
}

std::size_t read_int64(std::string_view text, std::int64_t& value) noexcept {
    bool negative = false;
    const std::string_view digits = digits_at(text, negative);
    std::uint64_t size = 0;
    constexpr std::uint64_t half = std::uint64_t{1} << 63;
    if (digits.empty() || !magnitude(digits, size) || size > half || (size == half && !negative)) return 0;
    value = static_cast<std::int64_t>(negative ? 0 - size : size);
    return static_cast<std::size_t>(digits.data() + digits.size() - text.data());
}

std::size_t read_uint64(std::string_view text, std::uint64_t& value) noexcept {
    bool negative = false;
    const std::string_view digits = digits_at(text, negative);
    if (digits.empty() || !magnitude(digits, value) || (negative && value != 0)) return 0;
    return static_cast<std::size_t>(digits.data() + digits.size() - text.data());
}

std::size_t read_float64(std::string_view text, char decimal, double& value) {
    return read_float(text, decimal, value);
}

std::size_t read_float32(std::string_view text, char decimal, float& value) { return read_float(text, decimal, value); }

char* write_float64(char* to, double value, char decimal) noexcept { return write_float(to, value, decimal); }
char* write_float32(char* to, float value, char decimal) noexcept { return write_float(to, value, decimal); }

} // namespace headrace::csv
