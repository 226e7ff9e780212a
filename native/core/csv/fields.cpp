#include "core/csv/fields.hpp"

#include <algorithm>
#include <bit>

namespace headrace::csv {
namespace {

/// The first `wanted` from `at` on, or the end. Fields are short: memchr is called only after 32 bytes.
const char* find_byte(const char* at, const char* end, char wanted) noexcept {
    static_assert(std::endian::native == std::endian::little, "big-endian hosts need a byte swap here");
    constexpr std::uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
    const std::uint64_t pattern = ones * static_cast<unsigned char>(wanted);
    for (int words = 0; words < 4; ++words, at += sizeof(std::uint64_t)) {
        if (end - at < std::ptrdiff_t{sizeof(std::uint64_t)}) {
            while (at != end && *at != wanted) ++at;
            return at;
        }
        std::uint64_t word = 0;
        std::memcpy(&word, at, sizeof word);
        word ^= pattern;
        const std::uint64_t zeros = (word - ones) & ~word & tops; // exact up to the first zero byte
        if (zeros != 0) return at + std::countr_zero(zeros) / 8;
    }
    const void* const found = at == end ? nullptr : std::memchr(at, wanted, static_cast<std::size_t>(end - at));
    return found == nullptr ? end : static_cast<const char*>(found);
}

std::size_t find_from(std::string_view row, std::size_t at, char wanted) noexcept {
    return static_cast<std::size_t>(find_byte(row.data() + at, row.data() + row.size(), wanted) - row.data());
}

} // namespace

Field field_at(std::string_view row, std::size_t at, const Dialect& dialect) {
    Field field{at, row.size(), false, false};
    if (!dialect.quote || at == row.size() || row[at] != *dialect.quote) {
        field.end = find_from(row, at, dialect.delimiter);
        return field;
    }
    field.quoted = true;
    std::size_t close = at + 1;
    while (true) {
        close = find_from(row, close, *dialect.quote);
        if (close == row.size()) throw FormatError(Fault::truncated, at, 0, at);
        if (close + 1 == row.size() || row[close + 1] != *dialect.quote) break;
        field.doubled = true;
        close += 2;
    }
    field.end = close + 1;
    if (field.end != row.size() && row[field.end] != dialect.delimiter)
        throw FormatError(Fault::structure, field.end, 0, field.end);
    return field;
}

void append_undoubled(std::string_view inner, char quote, std::string& to) {
    for (std::size_t at = 0; at < inner.size();) {
        const std::size_t next = std::min(find_from(inner, at, quote) + 1, inner.size());
        to.append(inner.substr(at, next - at));
        at = next + 1; // past the second one of the pair
    }
}

std::size_t width_from(std::string_view row, std::size_t at, const Dialect& dialect) {
    if (!dialect.quote || row.find(*dialect.quote, at) == std::string_view::npos)
        return 1 + static_cast<std::size_t>(
                       std::count(row.begin() + static_cast<std::ptrdiff_t>(at), row.end(), dialect.delimiter));
    std::size_t count = 0;
    while (true) {
        const Field field = field_at(row, at, dialect);
        ++count;
        if (field.end == row.size()) return count;
        at = field.end + 1;
    }
}

} // namespace headrace::csv
