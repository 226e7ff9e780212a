#pragma once

#include "core/cursor.hpp"

namespace penstock {

/// Rows of equal size that lie one behind the other; `bytes` holds `count * size` of them, as the caller has checked.
struct Rows {
    Bytes bytes;
    std::size_t size = 0;  ///< Bytes of one row; may be 0.
    std::size_t count = 0; ///< How many there are.
};

/// Copies rows to `out` in the order of `indices`, neighbours in one go. Throws FormatError{range} (record = position in
/// `indices`) before anything is written when an index is not a row. `out` holds indices.size() * rows.size bytes.
void take_rows(const Rows& rows, std::span<const std::int64_t> indices, std::byte* out);

} // namespace penstock
