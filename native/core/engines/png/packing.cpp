#include "core/engines/png/packing.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace headrace {
namespace {

/// For every byte, the numbers of `bits` bits in it, the uppermost first, each times `scale`.
template <unsigned bits> constexpr auto make_table(unsigned scale) {
    std::array<std::array<std::uint8_t, 8 / bits>, 256> table{};
    for (unsigned byte = 0; byte < 256; ++byte) {
        for (unsigned i = 0; i < 8 / bits; ++i)
            table[byte][i] = static_cast<std::uint8_t>((byte >> (8 - bits * (i + 1)) & ((1U << bits) - 1)) * scale);
    }
    return table;
}

template <unsigned bits> constexpr auto number_table = make_table<bits>(1);
template <unsigned bits> constexpr auto grey_table = make_table<bits>(255 / ((1U << bits) - 1));

template <std::size_t each>
void spread(const std::byte* from, std::size_t count, const std::array<std::array<std::uint8_t, each>, 256>& table,
            std::byte* out) noexcept {
    for (; count >= each; count -= each, out += each)
        std::memcpy(out, table[std::to_integer<std::size_t>(*from++)].data(), each);
    if (count != 0) std::memcpy(out, table[std::to_integer<std::size_t>(*from)].data(), count);
}

/// Writes `count` numbers of a row as bytes.
void spread_row(const std::byte* from, std::size_t count, unsigned bits, bool is_grey, std::byte* out) noexcept {
    switch (bits) {
    case 1: spread(from, count, is_grey ? grey_table<1> : number_table<1>, out); break;
    case 2: spread(from, count, is_grey ? grey_table<2> : number_table<2>, out); break;
    case 4: spread(from, count, is_grey ? grey_table<4> : number_table<4>, out); break;
    default: std::memcpy(out, from, count);
    }
}

} // namespace

bool PngPalette::set_colours(Bytes chunk, unsigned bits) noexcept {
    if (size_ != 0 || chunk.empty() || chunk.size() % 3 != 0 || chunk.size() / 3 > std::size_t{1} << bits) return false;
    for (; size_ < chunk.size() / 3; ++size_) {
        std::memcpy(colours_[size_].data(), chunk.data() + size_ * 3, 3);
        colours_[size_][3] = std::byte{255};
    }
    return true;
}

bool PngPalette::set_alpha(Bytes chunk) noexcept {
    if (has_alpha_ || chunk.empty() || chunk.size() > size_) return false;
    for (std::size_t i = 0; i < chunk.size(); ++i) colours_[i][3] = chunk[i];
    has_alpha_ = true;
    return true;
}

void PngPalette::write(const std::byte* numbers, std::size_t count, std::size_t channels,
                       std::byte* out) const noexcept {
    const auto colour = [&](std::size_t i) { return colours_[std::to_integer<std::size_t>(numbers[i])].data(); };
    // Four bytes are one store. Without alpha the next pixel covers the fourth, and behind the last one is none.
    const std::size_t whole = channels == 4 || count == 0 ? count : count - 1;
    for (std::size_t i = 0; i < whole; ++i) std::memcpy(out + i * channels, colour(i), 4);
    for (std::size_t i = whole; i < count; ++i) std::memcpy(out + i * channels, colour(i), channels);
}

bool unpack_png(Bytes rows, std::size_t height, const PngPacking& packing, const PngPalette& palette, std::byte* out) {
    const std::size_t row_bytes = height == 0 ? 0 : rows.size() / height;
    const bool is_grey = packing.channels == 1;
    std::vector<std::byte> numbers(is_grey ? 0 : packing.width);
    for (std::size_t y = 0; y < height; ++y, out += packing.width * packing.channels) {
        const std::byte* const row = rows.data() + y * row_bytes;
        spread_row(row, packing.width, packing.bits, is_grey, is_grey ? out : numbers.data());
        if (is_grey) continue;
        if (palette.size() < 256) {
            std::uint8_t most = 0; // The compiler compares many at once.
            for (const std::byte number : numbers) most = std::max(most, std::to_integer<std::uint8_t>(number));
            if (most >= palette.size()) return false;
        }
        palette.write(numbers.data(), packing.width, packing.channels, out);
    }
    return true;
}

} // namespace headrace
