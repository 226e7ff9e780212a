#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/base/cpu.hpp"
#include "core/csv/scan.hpp"

namespace headrace::csv {

/// One column of some rows: field i begins at text + before[i * step] + 1 and ends at text + ends[i * width].
struct GridColumn {
    const char* text = nullptr;
    const char* stop = nullptr; ///< Bytes up to here are readable.
    const std::uint32_t* before = nullptr;
    const std::uint32_t* ends = nullptr;
    std::size_t step = 0;
    std::size_t width = 0;
    bool has_quotes = false; ///< Whether a quote was found in any field of the rows.

    [[nodiscard]] const char* begin(std::size_t row) const noexcept { return text + (before[row * step] + 1U); }
    [[nodiscard]] std::size_t size(std::size_t row) const noexcept {
        return ends[row * width] - (before[row * step] + 1U);
    }
};

/// The fields of rows that follow each other, found 64 bytes at a time. It holds a few rows at once, so that their text
/// stays in the cache while it is read column by column.
///
/// Only regular rows have a grid. If `find` returns nothing, slower readers decide whether there is a fault: quotes
/// inside fields are text, and rows of a megabyte are allowed.
class FieldGrid {
  public:
    /// `width`: fields of every row.
    FieldGrid(const Dialect& dialect, std::size_t width, const Cpu& cpu = this_cpu) noexcept;

    /// Finds the fields of the next rows from `at`, where a row begins, up to `stop`, where one may begin or the file
    /// ends. Returns where to go on, `stop` at the end; nothing if a row is of another width, broken, or very long.
    [[nodiscard]] std::optional<std::uint64_t> find(Bytes file, std::uint64_t at, std::uint64_t stop);

    [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
    [[nodiscard]] std::size_t width() const noexcept { return width_; }

    /// How much text the rows take, in bytes.
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

    [[nodiscard]] GridColumn column(std::size_t k) const noexcept {
        const bool first = k == 0;
        return {text_,
                stop_,
                first ? before_rows_.data() : ends_.data() + k - 1,
                ends_.data() + k,
                first ? 1 : width_,
                width_,
                has_quotes_};
    }

  private:
    /// Positions in text, not initialised: clearing as many as a grid has room for takes longer than finding a few.
    class Places {
      public:
        [[nodiscard]] std::uint32_t* data() noexcept { return places_.get(); }
        [[nodiscard]] const std::uint32_t* data() const noexcept { return places_.get(); }
        std::uint32_t& operator[](std::size_t i) noexcept { return places_[i]; }
        void make_room(std::size_t count) {
            if (count <= room_) return;
            places_ = std::make_unique_for_overwrite<std::uint32_t[]>(count);
            room_ = count;
        }

      private:
        std::unique_ptr<std::uint32_t[]> places_;
        std::size_t room_ = 0;
    };

    [[nodiscard]] bool cut_rows(std::size_t count, std::size_t lines, std::size_t size);

    Dialect dialect_;
    std::size_t width_;
    const Cpu& cpu_;
    std::size_t wanted_bytes_ = std::size_t{32} << 10; ///< With the ends of fields, what a level-one cache holds.
    const char* text_ = nullptr;
    const char* stop_ = nullptr;
    bool has_quotes_ = false;
    std::size_t rows_ = 0;
    std::size_t bytes_ = 0;
    Places ends_;        ///< Of all fields.
    Places before_rows_; ///< The position before each row.
};

} // namespace headrace::csv
