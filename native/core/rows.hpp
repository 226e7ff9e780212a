#pragma once

#include "core/cursor.hpp"

namespace penstock {

/// Copies rows of `row_size` bytes, which lie one behind the other in `rows`, to `out` in the order of `indices`.
/// Neighbouring indices are copied in one go. Throws FormatError{range} (record = position in `indices`) before anything
/// is written when an index is not a row. `out` holds indices.size() * row_size bytes.
void take_rows(Bytes rows, std::size_t row_size, std::span<const std::int64_t> indices, std::byte* out);

} // namespace penstock
