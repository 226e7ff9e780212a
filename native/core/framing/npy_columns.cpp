#include "core/framing/npy_columns.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <vector>

namespace headrace::npy {
namespace {

/// As many columns at a time as fill a line of the cache: it is written at once, and their loads wait together.
constexpr std::size_t line_bytes = 64, most_at_once = 16;

template <class Size>
void gather(const Columns& columns, std::span<const std::int64_t> indices, std::byte* out, Size size) {
    const std::size_t count = columns.places.size(), row_bytes = count * size;
    const std::size_t at_once = std::clamp<std::size_t>(line_bytes / size, 4, most_at_once);
    for (std::size_t first = 0; first < count; first += at_once) {
        const std::size_t some = std::min(at_once, count - first);
        std::array<const std::byte*, most_at_once> from{};
        std::array<std::size_t, most_at_once> to{};
        for (std::size_t i = 0; i < some; ++i) {
            from[i] = columns.bytes.data() + (first + i) * columns.rows * size;
            to[i] = columns.places[first + i] * size;
        }
        std::byte* row = out;
        for (const std::int64_t index : indices) {
            const std::size_t offset = static_cast<std::size_t>(index) * size;
            for (std::size_t i = 0; i < some; ++i) std::memcpy(row + to[i], from[i] + offset, size);
            row += row_bytes;
        }
    }
}

template <std::size_t size> using Constant = std::integral_constant<std::size_t, size>;

} // namespace

void take_rows(const Columns& columns, std::span<const std::int64_t> indices, std::byte* out) {
    // Copied, because a caller's array may change between the check and the use.
    const std::vector<std::int64_t> kept(indices.begin(), indices.end());
    for (std::size_t i = 0; i < kept.size(); ++i) {
        if (static_cast<std::uint64_t>(kept[i]) < columns.rows) continue;
        FormatError error(Fault::range, 0, columns.rows, static_cast<std::uint64_t>(kept[i]));
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
