#include "core/riegeli/layout.hpp"

#include <algorithm>
#include <array>

#include "core/checksum/highway_hash.hpp"

namespace headrace::riegeli {

std::optional<BlockHeader> read_block_header(Bytes file, std::uint64_t boundary) noexcept {
    if (boundary > file.size() || file.size() - boundary < block_header_size) return std::nullopt;
    std::array<std::byte, block_header_size> copy; // Copied, so that it cannot change after it is hashed.
    std::memcpy(copy.data(), file.data() + boundary, copy.size());
    const std::byte* const at = copy.data();
    if (load_le<std::uint64_t>(at) != riegeli_hash({at + 8, 16})) return std::nullopt;
    return BlockHeader{load_le<std::uint64_t>(at + 8), load_le<std::uint64_t>(at + 16)};
}

std::vector<std::int64_t> bad_block_headers(Bytes file) {
    std::vector<std::int64_t> bad;
    for (std::uint64_t boundary = 0; boundary < file.size(); boundary += block_size)
        if (!read_block_header(file, boundary)) bad.push_back(static_cast<std::int64_t>(boundary));
    return bad;
}

void write_block_header(std::byte* to, BlockHeader header) noexcept {
    store_le(to + 8, header.previous_chunk);
    store_le(to + 16, header.next_chunk);
    store_le(to, riegeli_hash({to + 8, 16}));
}

void copy_without_headers(Bytes file, std::uint64_t position, std::uint64_t size, std::byte* to) noexcept {
    while (size != 0) {
        position = behind_block_header(position);
        const std::uint64_t piece = std::min(size, block_size - position % block_size);
        std::memcpy(to, file.data() + position, piece);
        to += piece;
        position += piece;
        size -= piece;
    }
}

} // namespace headrace::riegeli
