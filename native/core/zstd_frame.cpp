#include "core/zstd_frame.hpp"

#include <algorithm>
#include <array>

namespace headrace::zstd {

std::optional<std::uint64_t> Frame::header() noexcept {
    if (number(4) != magic) fits = false;
    const std::uint64_t flags = number(1);
    const bool single_segment = (flags & 0x20) != 0;
    if ((flags & 0x0F) != 0) fits = false;
    std::uint64_t window = most_block_bytes;
    if (!single_segment) {
        const std::uint64_t code = number(1);
        const std::uint64_t least = std::uint64_t{1} << (10 + (code >> 3));
        window = least + least / 8 * (code & 7);
    }
    constexpr std::array<std::size_t, 4> size_bytes = {0, 2, 4, 8};
    const std::size_t bytes = size_bytes[flags >> 6];
    std::optional<std::uint64_t> size;
    if (bytes != 0 || single_segment) size = number(bytes == 0 ? 1 : bytes) + (bytes == 2 ? 256 : 0);
    if (single_segment) window = *size;
    most_block = static_cast<std::size_t>(std::min<std::uint64_t>(window, most_block_bytes));
    return size;
}

BlockHeader Frame::block() noexcept {
    const std::uint64_t word = number(3);
    const BlockHeader header{(word & 1) != 0, static_cast<BlockType>(word >> 1 & 3), static_cast<std::size_t>(word >> 3)};
    if (header.type == BlockType::reserved || header.size > most_block) fits = false;
    return header;
}

} // namespace headrace::zstd
