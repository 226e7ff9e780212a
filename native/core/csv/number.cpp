#include "core/csv/number.hpp"

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

// NOLINTBEGIN: std::from_chars takes its place
namespace headrace::csv {
namespace {

bool is_digit(char byte) noexcept { return static_cast<unsigned char>(byte - '0') < 10; }
char lower(char byte) noexcept { return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + 32) : byte; }

/// A decimal number taken apart. `mantissa` holds the first 19 digits that count, times 10^`exponent`.
struct Parts {
    bool negative = false;
    bool infinite = false;
    bool whole = true; ///< Neither decimal mark nor exponent.
    bool padded = false;
    bool cut = false; ///< There are more than 19 digits that count.
    std::uint64_t mantissa = 0;
    std::int64_t exponent = 0;
    std::size_t size = 0; ///< In bytes; 0: no number.
};

std::size_t infinity_at(const char* at, const char* end) noexcept {
    constexpr std::string_view word = "infinity";
    std::size_t same = 0;
    while (same < word.size() && at + same != end && lower(at[same]) == word[same]) ++same;
    return same == word.size() ? word.size() : same >= 3 ? 3 : 0;
}

/// Eight digits in one step: the usual multiplications of pairs, fours and eights.
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

/// Reads digits, up to 19 that count; returns where they end.
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
                parts_.cut = true;
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
        if (value < 1'000'000) value = value * 10 + (*digits - '0'); // Larger ones all mean the same.
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

/// What the method below needs to know of a float type.
template <typename T> struct Format;
template <> struct Format<double> {
    using Bits = std::uint64_t;
    static constexpr int mantissa_bits = 52, least_tie = -4, most_tie = 23;
    static constexpr std::int64_t bias = 1023, infinite_power = 2047;
};
template <> struct Format<float> {
    using Bits = std::uint32_t;
    static constexpr int mantissa_bits = 23, least_tie = -17, most_tie = 10;
    static constexpr std::int64_t bias = 127, infinite_power = 255;
};

struct Wide {
    std::uint64_t high = 0;
    std::uint64_t low = 0;
};

#if defined(__SIZEOF_INT128__)
__extension__ using Uint128 = unsigned __int128;
constexpr Wide product(std::uint64_t a, std::uint64_t b) noexcept {
    const Uint128 whole = Uint128{a} * b;
    return {static_cast<std::uint64_t>(whole >> 64), static_cast<std::uint64_t>(whole)};
}
#else
constexpr Wide product(std::uint64_t a, std::uint64_t b) noexcept {
    const std::uint64_t a0 = a & 0xFFFFFFFF, a1 = a >> 32, b0 = b & 0xFFFFFFFF, b1 = b >> 32;
    const std::uint64_t low = a0 * b0, middle = a1 * b0 + (low >> 32), other = a0 * b1 + (middle & 0xFFFFFFFF);
    return {a1 * b1 + (middle >> 32) + (other >> 32), (other << 32) | (low & 0xFFFFFFFF)};
}
#endif

constexpr int most_table_power = 27; ///< 5^27 is the last power of five below 2^64.

constexpr std::uint64_t power_of_five(int q) noexcept { return q == 0 ? 1 : 5 * power_of_five(q - 1); }

/// floor(2^(127 + z) / five) + 1 with z = bits of `five` (rounded up to a power of two): 128 bits, by long division.
constexpr Wide reciprocal(std::uint64_t five) noexcept {
    const int z = 64 - std::countl_zero(five - 1);
    Wide quotient;
    std::uint64_t rest = 0;
    for (int bit = 127 + z; bit >= 0; --bit) {
        const bool over = rest >> 63 != 0;
        rest = (rest << 1) | (bit == 127 + z ? 1 : 0);
        const bool one = over || rest >= five;
        if (one) rest -= five;
        quotient = {(quotient.high << 1) | (quotient.low >> 63), (quotient.low << 1) | (one ? 1U : 0U)};
    }
    if (++quotient.low == 0) ++quotient.high;
    return quotient;
}

/// 5^q for q in [-27, 27], as 128 bits of which the first is set.
constexpr std::array<Wide, 2 * most_table_power + 1> table_of_powers() noexcept {
    std::array<Wide, 2 * most_table_power + 1> table{};
    for (int q = 0; q <= most_table_power; ++q) {
        const std::uint64_t five = power_of_five(q);
        table[static_cast<std::size_t>(most_table_power + q)] = {five << std::countl_zero(five), 0};
        if (q != 0) table[static_cast<std::size_t>(most_table_power - q)] = reciprocal(five);
    }
    return table;
}

constexpr auto powers = table_of_powers();

/// The nearest float to mantissa * 10^exponent, where the mantissa has up to 19 digits and the exponent is small, which
/// is nearly always. Source: Lemire, "Number parsing at a gigabyte per second" (2021), where it is shown that 128 bits
/// of the power suffice.
template <typename T> bool nearly_always(std::uint64_t mantissa, std::int64_t exponent, T& value) noexcept {
    using F = Format<T>;
    if (mantissa == 0) {
        value = 0;
        return true;
    }
    if (exponent < -most_table_power || exponent > most_table_power) return false;
    const int zeros = std::countl_zero(mantissa);
    const Wide power = powers[static_cast<std::size_t>(exponent + most_table_power)];
    mantissa <<= zeros;
    Wide whole = product(mantissa, power.high);
    constexpr std::uint64_t undecided = ~std::uint64_t{0} >> (F::mantissa_bits + 3);
    if ((whole.high & undecided) == undecided) {
        const Wide rest = product(mantissa, power.low);
        whole.low += rest.high;
        if (rest.high > whole.low) ++whole.high;
    }
    const int upper = static_cast<int>(whole.high >> 63);
    const int shift = upper + 64 - F::mantissa_bits - 3;
    std::uint64_t bits = whole.high >> shift;
    std::int64_t power2 = ((217706 * exponent) >> 16) + 63 + upper - zeros + F::bias;
    if (power2 <= 0) return false; // Subnormal: rare enough to go the long way.
    const bool exact_tie = whole.low <= 1 && exponent >= F::least_tie && exponent <= F::most_tie && (bits & 3) == 1 &&
                           bits << shift == whole.high;
    if (exact_tie) bits &= ~std::uint64_t{1};
    bits = (bits + (bits & 1)) >> 1;
    if (bits >= std::uint64_t{2} << F::mantissa_bits) {
        bits = std::uint64_t{1} << F::mantissa_bits;
        ++power2;
    }
    if (power2 >= F::infinite_power) return false;
    bits &= ~(std::uint64_t{1} << F::mantissa_bits);
    value = std::bit_cast<T>(static_cast<F::Bits>(bits | static_cast<std::uint64_t>(power2) << F::mantissa_bits));
    return true;
}

#if defined(__cpp_lib_to_chars)
template <typename T> bool parsed(const char* begin, const char* end, T& value) noexcept {
    return std::from_chars(begin, end, value).ec == std::errc{};
}
#else
// Libraries without from_chars for floats: strtod rounds correctly too. It wants the decimal mark of the locale.
template <typename T> bool parsed(const char* begin, const char* end, T& value) noexcept {
    std::string text(begin, end);
    const char mark = *std::localeconv()->decimal_point;
    for (char& byte : text)
        if (byte == '.') byte = mark;
    if constexpr (sizeof(T) == sizeof(double)) value = std::strtod(text.c_str(), nullptr);
    else value = std::strtof(text.c_str(), nullptr);
    return true;
}
#endif

/// The slow and certain way, for many digits and large exponents.
template <typename T> T converted(std::string_view text, const Parts& parts, char decimal) noexcept {
    const bool is_signed = text.front() == '+' || text.front() == '-';
    const std::string_view bare = text.substr(is_signed ? 1 : 0, parts.size - (is_signed ? 1 : 0));
    T value = 0;
    bool good = false;
    if (decimal == '.') {
        good = parsed(bare.data(), bare.data() + bare.size(), value);
    } else {
        std::string copy(bare);
        for (char& byte : copy)
            if (byte == decimal) byte = '.';
        good = parsed(copy.data(), copy.data() + copy.size(), value);
    }
    if (good) return value;
    const bool large =
        parts.mantissa != 0 && parts.exponent > 0; // Beyond the range: far above it, or so small that it is nothing.
    return large ? std::numeric_limits<T>::infinity() : T{0};
}

template <typename T> std::size_t read_float(std::string_view text, char decimal, T& value) noexcept {
    const Parts parts = parts_of(text, decimal);
    if (parts.size == 0) return 0;
    T found = std::numeric_limits<T>::infinity();
    if (!parts.infinite && (parts.cut || !nearly_always(parts.mantissa, parts.exponent, found)))
        found = converted<T>(text, parts, decimal);
    value = parts.negative ? -found : found;
    return parts.size;
}

/// Digits of a number without a sign; false where it does not fit in 64 bits.
bool magnitude(std::string_view digits, std::uint64_t& value) noexcept {
    const auto found = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return found.ec == std::errc{} && found.ptr == digits.data() + digits.size();
}

/// Whether no bit is lost: those of the number fit in the 53 of a float64.
bool is_float64(std::uint64_t value) noexcept {
    return value == 0 || std::bit_width(value) - std::countr_zero(value) <= 53;
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
        (void)parsed(text, text + std::strlen(text), back);
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
    if (std::isnan(value)) return static_cast<char*>(std::memcpy(to, "nan", 3)) + 3;
    if (std::isinf(value)) {
        if (value < 0) *to++ = '-';
        return static_cast<char*>(std::memcpy(to, "inf", 3)) + 3;
    }
    const double size = std::abs(static_cast<double>(value));
    const bool scientific = size != 0 && (size < 1e-4 || size >= 1e16); // where Python's repr changes over
    char* const end = shortest(to, value, scientific);
    char* const point = static_cast<char*>(std::memchr(to, '.', static_cast<std::size_t>(end - to)));
    if (point != nullptr) *point = decimal;
    if (point != nullptr || scientific) return end;
    end[0] = decimal; // So that it is read as a float again.
    end[1] = '0';
    return end + 2;
}

} // namespace

NumberFacts facts_of(std::string_view text, char decimal) noexcept {
    const Parts parts = parts_of(text, decimal);
    if (parts.size == 0 || parts.size != text.size()) return {};
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

std::size_t read_float64(std::string_view text, char decimal, double& value) noexcept {
    return read_float(text, decimal, value);
}

std::size_t read_float32(std::string_view text, char decimal, float& value) noexcept {
    return read_float(text, decimal, value);
}

char* write_float64(char* to, double value, char decimal) noexcept { return write_float(to, value, decimal); }
char* write_float32(char* to, float value, char decimal) noexcept { return write_float(to, value, decimal); }

} // namespace headrace::csv
// NOLINTEND
