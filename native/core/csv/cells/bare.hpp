#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/csv/grid.hpp"
#include "core/csv/layout.hpp"

namespace headrace::csv {

/// Values without what may be around them: quotes, then blanks, then a plus sign before a number. Words that mark a
/// missing value become empty, if an empty value is missing, too. What is left means the same to number_in. What has
/// quotes inside stays no number.
class BareCells {
  public:
    explicit BareCells(const Layout& layout);

    /// Whether words that mark a missing value become empty.
    [[nodiscard]] bool has_missing() const noexcept { return has_missing_; }

    /// Whether there is anything around the value of a row.
    [[nodiscard]] bool would_change(const GridColumn& column, std::size_t row) const noexcept;

    /// A column of the bare values of rows [first, rows). It shows nothing of other rows, and is good until the next
    /// call. Places in the text are kept here, so that the column stays within the text whatever happens to that.
    [[nodiscard]] GridColumn strip(const GridColumn& column, std::size_t first, std::size_t rows);

    /// How many words that mark a missing value, other than the empty one, the last `strip` found before this row.
    [[nodiscard]] std::size_t missing_before(std::size_t row) const noexcept;

  private:
    struct Cell {
        const char* at = nullptr;
        std::size_t size = 0;
        bool is_missing = false; ///< It was a word.
    };
    [[nodiscard]] Cell bare(const char* at, std::size_t size, bool has_quotes) const noexcept;

    const Layout& layout_;
    bool has_missing_;
    std::array<bool, 256> may_change_{}; ///< By the first byte of a value, or the last.
    std::size_t room_ = 0;
    std::unique_ptr<std::uint32_t[]> before_, ends_;
    std::unique_ptr<std::uint32_t[]> missing_; ///< Rows, in order.
    std::size_t missing_count_ = 0;
};

/// A column in runs of rows that are read together: as they are, or bare. A bare run begins with a value that has
/// something around it, at the start or near the last such value. The next one is longer if it begins soon.
class CellRuns {
  public:
    /// `may_miss`: whether a word that marks a missing value could be read as another value. Then all rows are bare, or
    /// cannot be read together if missing words do not become empty.
    CellRuns(BareCells& bare, const GridColumn& column, std::size_t rows, bool may_miss);

    /// The cells of the rows up to stop(). Valid only if readable().
    [[nodiscard]] const GridColumn& cells() const noexcept { return cells_; }
    [[nodiscard]] std::size_t stop() const noexcept { return stop_; }
    [[nodiscard]] bool readable() const noexcept { return readable_; }

    /// Takes the row where reading stopped. Returns whether to go on reading there; false: its value is to be read
    /// alone.
    [[nodiscard]] bool go_on(std::size_t row);

    /// How many words that mark a missing value, other than the empty one, became empty before this row.
    [[nodiscard]] std::size_t missing_before(std::size_t row) const noexcept {
        return missing_ + (is_bare_ ? bare_.missing_before(row) : 0);
    }

  private:
    static constexpr std::size_t least = 4, growth = 4, near = 8;

    void strip(std::size_t row);

    BareCells& bare_;
    GridColumn column_, cells_;
    std::size_t rows_, stop_;
    std::size_t begin_ = 0; ///< Where reading cells as they are began, or went on after one that was read alone.
    std::size_t length_;
    std::size_t missing_ = 0;
    bool is_bare_ = false;
    bool readable_ = true;
};

} // namespace headrace::csv
