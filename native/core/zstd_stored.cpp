#include "core/zstd_stored.hpp"

#include <array>

namespace penstock {
namespace {

constexpr std::uint32_t magic = 0xFD2FB528;
constexpr std::size_t most_block_bytes = 128 << 10;
enum class Block : std::uint8_t { raw, run, compressed, reserved };

struct BlockHeader {
    bool last;
    Block type;
    std::size_t size;
};

// Steps through a frame; `fits` turns false when something is not there, or not of the kind that is unpacked here.
struct Frame {
    Bytes rest;
    bool fits = true;

    Bytes take(std::size_t size) {
        if (size > rest.size()) {
            fits = false;
            return {};
        }
        const Bytes taken = rest.first(size);
        rest = rest.subspan(size);
        return taken;
    }

    std::uint64_t number(std::size_t size) {
        std::uint64_t value = 0;
        std::size_t shift = 0;
        for (const std::byte byte : take(size)) {
            value |= std::to_integer<std::uint64_t>(byte) << shift;
            shift += 8;
        }
        return value;
    }

    // The declared content size, if there is one. A frame with a dictionary or a checksum is left to the library.
    std::optional<std::uint64_t> header() {
        if (number(4) != magic) fits = false;
        const std::uint64_t flags = number(1);
        const bool single_segment = (flags & 0x20) != 0;
        if ((flags & 0x0F) != 0) fits = false;
        if (!single_segment) static_cast<void>(number(1)); // window size
        constexpr std::array<std::size_t, 4> size_bytes = {0, 2, 4, 8};
        const std::size_t bytes = size_bytes[flags >> 6];
        if (bytes == 0 && !single_segment) return std::nullopt;
        return number(bytes == 0 ? 1 : bytes) + (bytes == 2 ? 256 : 0);
    }

    BlockHeader block() {
        const std::uint64_t word = number(3);
        const BlockHeader header{(word & 1) != 0, static_cast<Block>(word >> 1 & 3), static_cast<std::size_t>(word >> 3)};
        if ((header.type != Block::raw && header.type != Block::run) || header.size > most_block_bytes) fits = false;
        return header;
    }
};

} // namespace

std::optional<std::uint64_t> zstd_declared_size(Bytes frame) noexcept {
    Frame at{frame};
    const auto size = at.header();
    return at.fits ? size : std::nullopt;
}

std::optional<Bytes> zstd_raw_content(Bytes frame, std::uint64_t size) noexcept {
    Frame at{frame};
    if (at.header().value_or(size) != size) return std::nullopt;
    const BlockHeader block = at.block();
    const Bytes content = at.take(block.size);
    if (!at.fits || !block.last || block.type != Block::raw || !at.rest.empty() || content.size() != size) return std::nullopt;
    return content;
}

bool unpack_stored_zstd(Bytes frame, std::span<std::byte> target) noexcept {
    Frame at{frame};
    if (at.header().value_or(target.size()) != target.size()) return false;
    while (at.fits) {
        const BlockHeader block = at.block();
        const bool is_run = block.type == Block::run;
        const Bytes content = at.take(is_run ? 1 : block.size);
        if (!at.fits || block.size > target.size()) return false;
        if (block.size != 0) {
            if (is_run)
                std::memset(target.data(), std::to_integer<int>(content[0]), block.size);
            else
                std::memcpy(target.data(), content.data(), block.size);
        }
        target = target.subspan(block.size);
        if (block.last) return target.empty() && at.rest.empty();
    }
    return false;
}

std::byte* write_stored_zstd(std::byte* to, Bytes content) noexcept {
    store_le(to, magic);
    to[4] = std::byte{0x20}; // one segment, one byte of content size
    to[5] = static_cast<std::byte>(content.size());
    const auto header = static_cast<std::uint32_t>(content.size() << 3 | 1); // the last block, raw
    to[6] = static_cast<std::byte>(header);
    to[7] = static_cast<std::byte>(header >> 8);
    to[8] = std::byte{0};
    if (!content.empty()) std::memcpy(to + 9, content.data(), content.size());
    return to + stored_zstd_size(content.size());
}

} // namespace penstock
