#pragma once

#include <span>

#include "core/base/cursor.hpp"

namespace headrace::npy {

/// An array in Fortran order: the items of a row lie one in each column, and columns lie end to end.
struct Columns {
    Bytes bytes;                         ///< All columns.
    std::size_t item_bytes = 0;          ///< Of one item; may not be 0.
    std::size_t rows = 0;                ///< Items of a column.
    std::span<const std::size_t> places; ///< Where the item of each column goes in a row, counted in items.
};

/// Copies rows in C order to `out`, which holds indices.size() * places.size() items. Throws FormatError{range} (record
/// = position in `indices`) for an index out of range, before anything is written.
void take_rows(const Columns& columns, std::span<const std::int64_t> indices, std::byte* out);

} // namespace headrace::npy
