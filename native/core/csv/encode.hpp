#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/csv/scan.hpp"

namespace headrace::csv {

enum class Values : std::uint8_t { int64 = 1, uint64, float64, float32, boolean, text };

/// One column to be written: `count` values a row, end to end. Views; the caller keeps what they show alive.
struct Source {
    Values kind = Values::text;
    std::size_t count = 1;
    const std::byte* numbers = nullptr;
    std::vector<std::string_view> texts;
};

/// Rows as text, each with its line end. Texts are quoted where they hold a delimiter, a quote or a line end, and where
/// a row would be an empty line otherwise. The caller has checked that every column holds `rows` * `count` values.
[[nodiscard]] std::vector<char> encode(std::span<const Source> sources, std::size_t rows, const Dialect& dialect,
                                       std::string_view line_end);

} // namespace headrace::csv
