#pragma once

#include <string>
#include <string_view>

#include "core/csv/scan.hpp"

/// The fields of one row, found one after another.
namespace headrace::csv {

/// A field of a row, up to its delimiter.
struct Field {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool quoted = false;
    bool doubled = false; ///< Quoted, with doubled quotes inside.
};

[[nodiscard]] inline std::string_view text_of(Bytes bytes) noexcept {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The field that begins at `at`. Throws FormatError{truncated} for a quote that is not closed, and {structure} for
/// text after a closing quote.
[[nodiscard]] Field field_at(std::string_view row, std::size_t at, const Dialect& dialect);

/// The content of a field. Doubled quotes stay doubled.
[[nodiscard]] inline std::string_view inner_of(std::string_view row, const Field& field) noexcept {
    return field.quoted ? row.substr(field.begin + 1, field.end - field.begin - 2)
                        : row.substr(field.begin, field.end - field.begin);
}

/// Appends the content of a field to `to`, doubled quotes undoubled.
void append_undoubled(std::string_view inner, char quote, std::string& to);

/// How many fields there are from `at` on, where one begins. Throws as field_at does.
[[nodiscard]] std::size_t width_from(std::string_view row, std::size_t at, const Dialect& dialect);

} // namespace headrace::csv
