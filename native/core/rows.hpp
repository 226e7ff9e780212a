#pragma once

#include "core/cursor.hpp"

namespace headrace {

/// Rows of equal size that lie one behind the other; `bytes` holds `count * size` of them, as the caller has checked.
struct Rows {
    Bytes bytes;
    std::size_t size = 0;  ///< Bytes of one row; may be 0.
    std::size_t count = 0; ///< How many there are.
};

/// Copies rows to `out` in the order of `indices`, neighbours in one go. Throws FormatError{range} (record = position in
/// `indices`) before anything is written when an index is not a row. `out` holds indices.size() * rows.size bytes.
void take_rows(const Rows& rows, std::span<const std::int64_t> indices, std::byte* out);

/// Copies `size` bytes from each place to `out`: place i is byte offsets[i] of files[which[i]] (of files[0] where `which` is
/// null; else it holds as many numbers as there are offsets). Throws FormatError{range} with `record` set before anything is
/// written when a place is not inside its file. `out` holds offsets.size() * size bytes.
void take_ranges(std::span<const Bytes> files, const std::int32_t* which, std::span<const std::int64_t> offsets, std::size_t size,
                 std::byte* out);

} // namespace headrace
