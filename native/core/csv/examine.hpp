#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/spans.hpp"
#include "core/csv/layout.hpp"

namespace headrace::csv {

/// What the values of one column look like. Each field counts in the first category that fits; `padded`, `wide` and
/// `negative` count subsets.
struct ColumnFacts {
    std::uint64_t empty = 0;   ///< Empty fields, whether or not the empty word marks a missing value.
    std::uint64_t missing = 0; ///< Other missing words.
    std::uint64_t whole = 0;   ///< Numbers, by kind.
    std::uint64_t positive = 0;
    std::uint64_t huge = 0;
    std::uint64_t real = 0;
    std::uint64_t boolean = 0;  ///< true, True, TRUE, false, ...
    std::uint64_t text = 0;     ///< Anything else.
    std::uint64_t padded = 0;   ///< Numbers with a superfluous leading zero.
    std::uint64_t wide = 0;     ///< Integers that float64 cannot represent.
    std::uint64_t negative = 0; ///< Negative integers.
};

/// Returns one entry per column. Skips broken rows and rows of another width; decoding reports those.
/// `until_text`: counts nothing more in a column once it has a text or a padded number.
[[nodiscard]] std::vector<ColumnFacts> examine(const Spans& spans, const Layout& layout, bool until_text = false,
                                               unsigned threads = 1);

/// The same for rows of a file that follow each other, as scan found them. The last one ends by `end`. Throws
/// FormatError{range} with `record` set for starts that do not rise up to `end`.
[[nodiscard]] std::vector<ColumnFacts> examine(Bytes file, std::span<const std::int64_t> starts, std::uint64_t end,
                                               const Layout& layout, bool until_text = false, unsigned threads = 1,
                                               const Cpu& cpu = this_cpu);

} // namespace headrace::csv
