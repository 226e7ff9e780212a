#include "core/engines/zstd/stored.hpp"

#include "core/engines/zstd/decoder.hpp"

namespace headrace {

std::optional<std::uint64_t> zstd_declared_size(Bytes frame) noexcept {
    zstd::Frame at{frame};
    const auto size = at.header();
    return at.fits ? size : std::nullopt;
}

std::optional<Bytes> zstd_raw_content(Bytes frame, std::uint64_t size) noexcept {
    zstd::Frame at{frame};
    if (at.header().value_or(size) != size) return std::nullopt;
    const zstd::BlockHeader block = at.block();
    const Bytes content = at.take(block.size);
    if (!at.fits || !block.last || block.type != zstd::BlockType::raw || !at.rest.empty() || content.size() != size)
        return std::nullopt;
    return content;
}

std::byte* write_stored_zstd(std::byte* to, Bytes content) noexcept {
    store_le(to, zstd::magic);
    to[4] = std::byte{0x20}; // one segment, one byte of content size
    to[5] = static_cast<std::byte>(content.size());
    const auto header = static_cast<std::uint32_t>(content.size() << 3 | 1); // the last block, raw
    to[6] = static_cast<std::byte>(header);
    to[7] = static_cast<std::byte>(header >> 8);
    to[8] = std::byte{0};
    if (!content.empty()) std::memcpy(to + 9, content.data(), content.size());
    return to + stored_zstd_size(content.size());
}

} // namespace headrace
