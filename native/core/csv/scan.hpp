#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/cursor.hpp"
#include "core/base/spans.hpp"

/// Rows of delimiter-separated values, as in RFC 4180 and as Python's csv module reads them in strict mode: a quote
/// counts only where a field begins; inside it two quotes are one, and delimiters and line ends are text; behind the
/// closing quote the field ends. Lines end with LF, CRLF or CR, the last one with the file. Empty lines are no rows.
namespace headrace::csv {

struct Dialect {
    char delimiter = ',';
    std::optional<char> quote = '"'; ///< Nothing: quotes are text.
    char decimal = '.';              ///< What stands between the whole and the fraction of a number.
};

/// What a row is checked for beyond its quotes.
struct Checks {
    std::uint64_t width = 0; ///< Fields that it must have; 0: any number.
    bool utf8 = false;       ///< Whether it must be UTF-8.
};

inline constexpr std::uint64_t most_row_bytes = std::uint64_t{1}
                                                << 28; ///< A quote that is open for longer was never meant as one.

/// Where a row ends, and where what follows its line end begins.
struct Row {
    std::uint64_t end = 0;
    std::uint64_t next = 0;
};

/// The row that begins at `at`. `last`: the file ends with these bytes, and so may a row.
/// Throws FormatError with `offset` = `at`: `truncated` where the bytes end inside a quote (`found` is where that
/// begins) or inside a line that may go on, `structure` for text behind a closing quote (`found` is where it stands),
/// `range` for an endless quote.
[[nodiscard]] Row row_at(Bytes file, std::uint64_t at, const Dialect& dialect, bool last);

/// The fields of one row, quotes and all. Throws as row_at does.
[[nodiscard]] std::vector<Bytes> fields_of(Bytes row, const Dialect& dialect);

/// What a field says: without its quotes, doubled ones single.
[[nodiscard]] std::string_view value_of(Bytes field, const Dialect& dialect, std::vector<char>& room);

using headrace::Scan;

/// Hops from row to row. Checked rows that fail give `wrong_count` (`expected` and `found` are numbers of fields) or
/// `wire` (no UTF-8; `found` is the byte).
[[nodiscard]] Scan scan(Bytes file, std::uint64_t start, std::uint64_t stop, const Dialect& dialect, Checks checks,
                        bool last, std::size_t max_records);

/// Behind the first line end from `start` - 1 on: where a row begins, unless that line end is quoted. -1 where none is
/// left.
[[nodiscard]] std::int64_t find(Bytes file, std::uint64_t start);

/// The rows at these offsets, without their line ends; as tfrecord::gather.
[[nodiscard]] std::vector<Bytes> gather(std::span<const Bytes> files, std::span<const std::int32_t> which,
                                        std::span<const std::int64_t> offsets, const Dialect& dialect);

/// Where the first byte stands that does not belong to UTF-8; the size where all do.
[[nodiscard]] std::size_t utf8_until(Bytes text) noexcept;

} // namespace headrace::csv
