#include "core/framing/npy_columns.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

namespace headrace::npy {
namespace {

/// As many columns at a time as fill a line of the cache, in as many rows as stay in the nearest one.
constexpr std::size_t line_bytes = 64, rows_at_once = 128;

template <class Size>
void gather(const Columns& columns, std::span<const std::int64_t> indices, std::byte* out, Size size) {
    const std::size_t count = columns.places.size(), row_bytes = count * size;
    const std::size_t at_once = std::max<std::size_t>(line_bytes / size, 1);
    for (std::size_t first = 0; first < count; first += at_once) {
        for (std::size_t top = 0; top < indices.size(); top += rows_at_once) {
            const auto tile = indices.subspan(top, std::min(rows_at_once, indices.size() - top));
            for (std::size_t column = first; column < std::min(first + at_once, count); ++column) {
                const std::byte* const from = columns.bytes.data() + column * columns.rows * size;
                std::byte* to = out + top * row_bytes + columns.places[column] * size;
                for (const std::int64_t index : tile) {
                    std::memcpy(to, from + static_cast<std::size_t>(index) * size, size);
                    to += row_bytes;
                }
            }
        }
    }
}

template <std::size_t size> using Constant = std::integral_constant<std::size_t, size>;

} // namespace

void take_rows(const Columns& columns, std::span<const std::int64_t> indices, std::byte* out) {
    // Copied, because a caller's array may change between the check and the use.
    const std::vector<std::int64_t> kept(indices.begin(), indices.end());
    for (std::size_t i = 0; i < kept.size(); ++i) {
        const auto index = static_cast<std::uint64_t>(kept[i]); // Negative indices become too large.
        if (index < columns.rows) continue;
        FormatError error(Fault::range, 0, columns.rows, index);
        error.record = static_cast<std::int64_t>(i);
        throw error;
    }
    switch (columns.item_bytes) {
    case 1: return gather(columns, kept, out, Constant<1>());
    case 2: return gather(columns, kept, out, Constant<2>());
    case 4: return gather(columns, kept, out, Constant<4>());
    case 8: return gather(columns, kept, out, Constant<8>());
    case 16: return gather(columns, kept, out, Constant<16>());
    default: return gather(columns, kept, out, columns.item_bytes);
    }
}

} // namespace headrace::npy
