#include "core/csv/cells/bare.hpp"

#include <algorithm>

#include "core/text/decimal.hpp"

namespace headrace::csv {
namespace {

bool is_blank(char byte) noexcept { return byte == ' ' || byte == '\t'; }

} // namespace

BareCells::BareCells(const Layout& layout) : layout_(layout), has_missing_(layout.missing.has("")) {
    for (std::size_t k = 0; k < may_change_.size(); ++k) {
        const auto byte = static_cast<char>(k);
        may_change_[k] =
            is_blank(byte) || byte == '+' || byte == layout.dialect.quote || layout.missing.begin_with(byte);
    }
}

BareCells::Cell BareCells::bare(const char* at, std::size_t size, bool has_quotes) const noexcept {
    if (has_quotes && size > 1 && layout_.dialect.quote && *at == *layout_.dialect.quote) {
        ++at;
        size -= 2;
    }
    while (size != 0 && is_blank(*at)) ++at, --size;
    while (size != 0 && is_blank(at[size - 1])) --size;
    if (has_missing_ && size != 0 && layout_.missing.has({at, size})) return {at, 0, true};
    if (size > 1 && *at == '+' && (is_digit(at[1]) || at[1] == layout_.dialect.decimal)) ++at, --size;
    return {at, size, false};
}

bool BareCells::would_change(const GridColumn& column, std::size_t row) const noexcept {
    const std::size_t size = column.size(row);
    return bare(column.begin(row), size, column.has_quotes).size != size;
}

GridColumn BareCells::strip(const GridColumn& column, std::size_t first, std::size_t rows) {
    if (room_ < rows) {
        for (auto* const places : {&before_, &ends_, &missing_})
            *places = std::make_unique_for_overwrite<std::uint32_t[]>(rows);
        room_ = rows;
    }
    std::uint32_t* const before = before_.get();
    std::uint32_t* const ends = ends_.get();
    std::uint32_t* missing = missing_.get();
    for (std::size_t i = first; i < rows; ++i) {
        Cell cell{column.begin(i), column.size(i)};
        if (cell.size != 0 && (may_change_[static_cast<unsigned char>(*cell.at)] || is_blank(cell.at[cell.size - 1])))
            cell = bare(cell.at, cell.size, column.has_quotes);
        const auto begin = static_cast<std::uint32_t>(cell.at - column.text);
        before[i] = begin - 1U;
        ends[i] = begin + static_cast<std::uint32_t>(cell.size);
        *missing = static_cast<std::uint32_t>(i);
        missing += cell.is_missing;
    }
    missing_count_ = static_cast<std::size_t>(missing - missing_.get());
    return {column.text, column.stop, before, ends, 1, 1, false};
}

std::size_t BareCells::missing_before(std::size_t row) const noexcept {
    const std::uint32_t* const begin = missing_.get();
    return static_cast<std::size_t>(std::lower_bound(begin, begin + missing_count_, row) - begin);
}

CellRuns::CellRuns(BareCells& bare, const GridColumn& column, std::size_t rows, bool may_miss)
    : bare_(bare),
      column_(column),
      cells_(column),
      rows_(rows),
      stop_(rows),
      length_(may_miss ? rows : least) {
    if (!may_miss) return;
    readable_ = bare.has_missing();
    if (readable_) strip(0);
}

void CellRuns::strip(std::size_t row) {
    stop_ = row + std::min(length_, rows_ - row);
    cells_ = bare_.strip(column_, row, stop_);
    is_bare_ = true;
}

bool CellRuns::go_on(std::size_t row) {
    if (!readable_) return false;
    if (!is_bare_) {
        const bool is_near = row - begin_ < near;
        begin_ = row + 1;
        if (!is_near) length_ = least;
        if (!is_near || !bare_.would_change(column_, row)) return false;
        length_ *= growth;
        strip(row);
        return true;
    }
    if (row != stop_) return false;
    missing_ = missing_before(row);
    is_bare_ = false;
    cells_ = column_;
    begin_ = row;
    stop_ = rows_;
    return true;
}

} // namespace headrace::csv
