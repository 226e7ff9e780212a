#include "core/csv/number.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <clocale>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/text/decimal.hpp"

namespace headrace::csv {
namespace {

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

/// Reads digits and keeps the first 19 significant ones.
class Digits {
  public:
    explicit Digits(Parts& parts) noexcept : parts_(parts) {}

    const char* read(const char* at, const char* end, bool fraction) noexcept {
        while (end - at >= 8 && parts_.mantissa < 10'000'000'000) {
            std::uint64_t word = 0, digits = 0;
            std::memcpy(&word, at, sizeof word);
            if (count_digits(word, digits) != 8) break;
            parts_.mantissa = parts_.mantissa * 100'000'000 + join_digits(digits);
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

/// Reads an unsigned number of at most 19 digits. Returns how many bytes it takes; 0 leaves it to the slower way.
template <typename T>
std::size_t read_short(const char* begin, const char* end, char decimal, bool negative, T& value) noexcept {
    constexpr std::ptrdiff_t most_digits_read = 19;
    std::uint64_t mantissa = 0;
    const char* at = read_digits(begin, end, mantissa);
    std::ptrdiff_t digits = at - begin;
    std::int64_t exponent = 0;
    if (at != end && *at == decimal) {
        const char* const fraction = at + 1;
        at = read_digits(fraction, end, mantissa);
        exponent = fraction - at;
        digits += at - fraction;
    }
    if (digits > most_digits_read)
        for (const char* zero = begin; zero != end && (*zero == '0' || *zero == decimal); ++zero)
            digits -= *zero == '0';
    if (digits > most_digits_read || at == begin || at - begin == (*begin == decimal)) return 0;
    if (at != end && lower(*at) == 'e') {
        Parts parts;
        at = exponent_at(at, end, parts);
        exponent += parts.exponent;
    }
    if (!round_decimal(mantissa, exponent, value)) return 0;
    const T signs[] = {T{1}, T{-1}}; // no branch: signs are hard to predict
    value *= signs[negative];
    return static_cast<std::size_t>(at - begin);
}

template <typename T> std::size_t read_float(std::string_view text, char decimal, T& value) {
    if (text.empty()) return 0;
    const bool negative = text.front() == '-';
    const std::size_t sign = static_cast<std::size_t>(negative) | static_cast<std::size_t>(text.front() == '+');
    const char* const end = text.data() + text.size();
    if (const std::size_t size = read_short(text.data() + sign, end, decimal, negative, value); size != 0)
        return sign + size;
    const std::size_t plus = negative ? 0 : sign;
    if (plus != 0 && text.size() > 1 && (text[1] == '-' || text[1] == '+')) return 0;
    text.remove_prefix(plus);
    std::size_t size = 0;
    if (decimal == '.') {
        size = read_plain(end - text.size(), end, value);
    } else {
        std::string copy(text.substr(0, parts_of(text, decimal).size));
        std::ranges::replace(copy, decimal, '.');
        size = read_plain(copy.data(), copy.data() + copy.size(), value);
    }
    return size == 0 ? 0 : plus + size;
}

/// Reads unsigned digits; false if the value exceeds 64 bits.
bool magnitude(std::string_view digits, std::uint64_t& value) noexcept {
    value = 0;
    constexpr std::size_t always_fit = 19;
    if (digits.size() <= always_fit) {
        (void)read_digits(digits.data(), digits.data() + digits.size(), value);
        return true;
    }
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

/// Reads a sign and digits. Returns how many bytes they take; 0 if there is no digit, or the value exceeds 64 bits.
std::size_t read_whole(std::string_view text, std::uint64_t& value, bool& negative) noexcept {
    const char* const end = text.data() + text.size();
    if (text.empty()) return 0;
    negative = text.front() == '-';
    const char* const digits = text.data() + (static_cast<int>(negative) | static_cast<int>(text.front() == '+'));
    value = 0;
    const char* const stop = read_digits(digits, end, value);
    constexpr std::ptrdiff_t always_fit = 19;
    const bool fits =
        stop - digits <= always_fit || magnitude({digits, static_cast<std::size_t>(stop - digits)}, value);
    return fits && stop != digits ? static_cast<std::size_t>(stop - text.data()) : 0;
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

NumberFacts plain_facts_of(std::string_view text, char decimal, std::size_t& size) noexcept {
    constexpr std::ptrdiff_t most_whole = 18, most_exponent = 2;
    size = 0;
    if (text.empty()) return {};
    const char* const end = text.data() + text.size();
    const char* const digits =
        text.data() + (static_cast<int>(text.front() == '-') | static_cast<int>(text.front() == '+'));
    std::uint64_t value = 0;
    const char* at = read_digits(digits, end, value);
    const std::ptrdiff_t whole = at - digits;
    if (whole > most_whole || whole == 0) return {};
    const bool padded = whole > 1 && *digits == '0';
    bool real = false;
    if (at != end && *at == decimal) {
        at = skip_digits(at + 1, end);
        real = true;
    }
    if (at != end && lower(*at) == 'e') {
        const char* const exponent = at + 1 + (at + 1 != end && (at[1] == '-' || at[1] == '+'));
        const char* const stop = skip_digits(exponent, end);
        if (stop == exponent || stop - exponent > most_exponent) return {};
        at = stop;
        real = true;
    }
    size = static_cast<std::size_t>(at - text.data());
    return {real ? NumberKind::real : NumberKind::whole, padded, !real && !is_float64(value)};
}

std::size_t read_int64(std::string_view text, std::int64_t& value) noexcept {
    std::uint64_t size = 0;
    bool negative = false;
    const std::size_t read = read_whole(text, size, negative);
    constexpr std::uint64_t half = std::uint64_t{1} << 63;
    if (size > half || (size == half && !negative)) return 0;
    value = static_cast<std::int64_t>(negative ? 0 - size : size);
    return read;
}

std::size_t read_uint64(std::string_view text, std::uint64_t& value) noexcept {
    bool negative = false;
    const std::size_t read = read_whole(text, value, negative);
    return negative && value != 0 ? 0 : read;
}

std::size_t read_float64(std::string_view text, char decimal, double& value) {
    return read_float(text, decimal, value);
}

std::size_t read_float32(std::string_view text, char decimal, float& value) { return read_float(text, decimal, value); }

char* write_float64(char* to, double value, char decimal) noexcept { return write_float(to, value, decimal); }
char* write_float32(char* to, float value, char decimal) noexcept { return write_float(to, value, decimal); }

} // namespace headrace::csv
