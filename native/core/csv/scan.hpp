#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/cpu.hpp"
#include "core/base/cursor.hpp"
#include "core/base/spans.hpp"

/// Delimiter-separated rows, as in RFC 4180 and Python's csv module in strict mode. A quote counts only at the start of
/// a field. Inside, a doubled quote is one quote, and delimiters and line ends are text; the closing quote ends the
/// field. Lines end with LF, CRLF or CR; the end of the file ends the last one. Empty lines are not rows.
namespace headrace::csv {

struct Dialect {
    char delimiter = ',';
    std::optional<char> quote = '"'; ///< Unset: quotes are text.
    char decimal = '.';              ///< The decimal mark.
};

/// What to check in a row besides its quotes.
struct Checks {
    std::uint64_t width = 0; ///< Fields per row; 0: any number.
    bool utf8 = false;       ///< Whether rows must be UTF-8.
};

inline constexpr std::uint64_t most_row_bytes = std::uint64_t{1}
                                                << 28; ///< A quote open for longer is taken for a stray one.

/// The end of a row, and the start of whatever follows its line end.
struct Row {
    std::uint64_t end = 0;
    std::uint64_t next = 0;
};

/// Finds the end of the row that begins at `at`. `last`: the file ends with these bytes, so a row may end there too.
/// Throws FormatError with `offset` = `at`: `truncated` for a quote still open (`found` is its position) or a line that
/// may continue; `structure` for text after a closing quote (`found` is its position); `range` for an endless quote.
[[nodiscard]] Row row_at(Bytes file, std::uint64_t at, const Dialect& dialect, bool last, const Cpu& cpu = this_cpu);

/// The fields of a row, quotes included. Throws as row_at does.
[[nodiscard]] std::vector<Bytes> fields_of(Bytes row, const Dialect& dialect);

/// The value of a field: without its quotes, doubled quotes undoubled.
[[nodiscard]] std::string_view value_of(Bytes field, const Dialect& dialect, std::vector<char>& room);

using headrace::Scan;

/// Collects the starts of rows. A row that fails a check gives `wrong_count` (`expected` and `found` are field counts)
/// or `wire` (not UTF-8; `found` is the position of the bad byte).
[[nodiscard]] Scan scan(Bytes file, std::uint64_t start, std::uint64_t stop, const Dialect& dialect, Checks checks,
                        bool last, std::size_t max_records, const Cpu& cpu = this_cpu);

/// The position after the first line end from `start` - 1 on. A row begins there unless that line end is quoted. -1 if
/// there is none.
[[nodiscard]] std::int64_t find(Bytes file, std::uint64_t start);

/// The rows at these offsets, without their line ends. Arguments as for tfrecord::gather.
[[nodiscard]] std::vector<Bytes> gather(std::span<const Bytes> files, std::span<const std::int32_t> which,
                                        std::span<const std::int64_t> offsets, const Dialect& dialect,
                                        const Cpu& cpu = this_cpu);

/// The same for rows that follow each other, as scan found them, without looking for their ends again. The last one
/// ends by `end`. Throws FormatError{range} with `record` set for offsets that do not rise up to `end`.
[[nodiscard]] std::vector<Bytes> gather_adjacent(Bytes file, std::span<const std::int64_t> offsets, std::uint64_t end);

/// The position of the first byte that is not valid UTF-8; the size if there is none.
[[nodiscard]] std::size_t utf8_until(Bytes text) noexcept;

} // namespace headrace::csv
