#pragma once

#include <cstdint>
#include <optional>
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

/// How much of a file a scan in runs takes: `first` bytes, then twice as many as the run before, at most `most`, until
/// `wanted` or more are taken. A run ends with the row that reaches beyond its bytes.
struct RunSizes {
    std::uint64_t first = 0;
    std::uint64_t most = 0;
    std::uint64_t wanted = 0;
};

/// What the first rows of a file look like, and where they end.
struct HeadFacts {
    std::vector<ColumnFacts> columns;
    std::uint64_t end = 0;
};

/// The same for the rows that a scan in runs from `begin` on finds, without that scan. Nothing if it takes a closer
/// look to tell where they are: quotes that are not where RFC 4180 puts them, rows of another width, a quoted line
/// end, a carriage return or an empty line where a run ends.
[[nodiscard]] std::optional<HeadFacts> examine_head(Bytes file, std::uint64_t begin, const RunSizes& sizes,
                                                    const Layout& layout, bool until_text = false, unsigned threads = 1,
                                                    const Cpu& cpu = this_cpu);

} // namespace headrace::csv
