#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/csv/scan.hpp"

namespace headrace::csv {

enum class Values : std::uint8_t { int64 = 1, uint64, float64, float32, boolean, text };

/// A column to write: `count` values per row, concatenated. Holds views; the caller keeps the memory alive.
struct Source {
    Values kind = Values::text;
    std::size_t count = 1;
    const std::byte* numbers = nullptr;
    std::vector<std::string_view> texts;
    std::vector<std::string_view> quoted = {}; ///< A text for each of the `count` values that is quoted in any case,
                                               ///< with or without blanks around it; or none.
};

/// Writes rows as text, each with its line end. Quotes texts that contain a delimiter, a quote or a line end, those of
/// `quoted`, and texts that would otherwise make an empty line; none of them in a dialect without quotes. NaN becomes
/// `missing`. The caller has checked that every column holds `rows` * `count` values.
[[nodiscard]] std::vector<char> encode(std::span<const Source> sources, std::size_t rows, const Dialect& dialect,
                                       std::string_view line_end, std::string_view missing = "nan");

} // namespace headrace::csv
