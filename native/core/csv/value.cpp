#include "core/csv/value.hpp"

#include <bit>
#include <limits>

#include "core/csv/number.hpp"

namespace headrace::csv {
namespace {

/// Whether no digit but zeros is left behind the decimal mark of a number once its exponent has moved it: a float that
/// is whole may have been rounded to it.
bool is_whole(std::string_view text, char decimal) noexcept {
    constexpr std::int64_t most = 1'000'000'000; // more than the digits of a row
    std::int64_t place = 0, last = 0;            // digits up to here, and up to the last one that is not zero
    std::int64_t mark = -1;                      // digits before the mark
    std::size_t at = text.find_first_of("eE");
    for (const char byte : text.substr(0, at)) {
        if (byte == decimal) mark = place;
        if (byte < '0' || byte > '9') continue;
        ++place;
        if (byte != '0') last = place;
    }
    if (mark < 0) mark = place;
    if (last == 0 || at == std::string_view::npos) return last <= mark;
    std::int64_t exponent = 0;
    const bool negative = text[++at] == '-';
    for (const char byte : text.substr(at))
        if (byte >= '0' && byte <= '9' && exponent < most) exponent = exponent * 10 + (byte - '0');
    return last - mark <= (negative ? -exponent : exponent);
}

/// Integers written as floats (3.0), common in columns with missing values.
bool whole_of_float(std::string_view text, Kind kind, char decimal, std::uint64_t& bits) {
    double value = 0;
    constexpr double exact = 9007199254740992.0; // 2^53, which is also read from the next integer
    if (read_float64(text, decimal, value) != text.size() || text.empty()) return false;
    if (!(value > -exact && value < exact) || (kind == Kind::uint64 && value < 0)) return false;
    const auto whole = static_cast<std::int64_t>(value);
    bits = static_cast<std::uint64_t>(whole);
    return static_cast<double>(whole) == value && is_whole(text, decimal);
}

[[noreturn]] void fail(Fault fault, Kind kind, std::size_t offset, std::size_t k) {
    FormatError error(fault, offset, static_cast<std::uint64_t>(kind), offset);
    error.feature = static_cast<std::int64_t>(k);
    throw error;
}

} // namespace

std::size_t size_of(Kind kind) noexcept {
    switch (kind) {
    case Kind::text: return 0;
    case Kind::boolean: return 1;
    case Kind::float32: return sizeof(float);
    default: return sizeof(std::uint64_t);
    }
}

std::optional<std::uint64_t> missing_number(const Spec& spec) noexcept {
    if (spec.has_default) return spec.number;
    if (spec.kind == Kind::float64) return std::bit_cast<std::uint64_t>(std::numeric_limits<double>::quiet_NaN());
    if (spec.kind == Kind::float32) return std::bit_cast<std::uint32_t>(std::numeric_limits<float>::quiet_NaN());
    return std::nullopt;
}

std::size_t read_number(std::string_view text, Kind kind, char decimal, std::uint64_t& bits) {
    std::size_t size = 0;
    if (kind == Kind::float64) {
        double value = 0;
        size = read_float64(text, decimal, value);
        bits = std::bit_cast<std::uint64_t>(value);
    } else if (kind == Kind::int64) {
        std::int64_t value = 0;
        size = read_int64(text, value);
        bits = static_cast<std::uint64_t>(value);
    } else if (kind == Kind::float32) {
        float value = 0;
        size = read_float32(text, decimal, value);
        bits = std::bit_cast<std::uint32_t>(value);
    } else if (kind == Kind::uint64) {
        size = read_uint64(text, bits);
    }
    return size;
}

std::uint64_t number_in(std::string_view inner, const Spec& spec, const Layout& layout, std::size_t offset,
                        std::size_t k) {
    const char decimal = layout.dialect.decimal;
    const std::string_view text = trimmed(inner);
    if (layout.missing.has(text)) {
        if (const std::optional<std::uint64_t> missing = missing_number(spec)) return *missing;
        fail(Fault::missing, spec.kind, offset, k);
    }
    std::uint64_t bits = 0;
    const std::size_t size = read_number(text, spec.kind, decimal, bits);
    const bool is_rounded = may_be_rounded(spec, bits) && facts_of(text, decimal).wide;
    if (size != 0 && size == text.size() && !is_rounded) return bits;
    if (spec.kind == Kind::boolean && truth_of(text) >= 0) return static_cast<std::uint64_t>(truth_of(text));
    if (spec.kind == Kind::boolean && (text == "0" || text == "1")) return text == "1" ? 1 : 0;
    if (spec.kind <= Kind::uint64 && whole_of_float(text, spec.kind, decimal, bits)) return bits;
    fail(Fault::wrong_kind, spec.kind, offset, k);
}

} // namespace headrace::csv
