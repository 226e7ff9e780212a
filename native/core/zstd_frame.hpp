#pragma once

#include <optional>

#include "core/cursor.hpp"

/// The frames of Zstandard. Source: RFC 8878, section 3.1.1.
namespace headrace::zstd {

inline constexpr std::uint32_t magic = 0xFD2FB528;
inline constexpr std::size_t most_block_bytes = 128 << 10;

enum class BlockType : std::uint8_t { raw, run, compressed, reserved };

struct BlockHeader {
    bool last;
    BlockType type;
    std::size_t size; ///< Of the content, for `compressed` of what stands in the frame.
};

/// Steps through a frame. `fits` turns false when something is not there, or not of the kind that is read here.
struct Frame {
    Bytes rest;
    bool fits = true;
    std::size_t most_block = most_block_bytes; ///< What a block may hold: no more than the window does.

    [[nodiscard]] Bytes take(std::size_t size) noexcept {
        if (size > rest.size()) {
            fits = false;
            return {};
        }
        const Bytes taken = rest.first(size);
        rest = rest.subspan(size);
        return taken;
    }

    [[nodiscard]] std::uint64_t number(std::size_t size) noexcept {
        std::uint64_t value = 0;
        std::size_t shift = 0;
        for (const std::byte byte : take(size)) {
            value |= std::to_integer<std::uint64_t>(byte) << shift;
            shift += 8;
        }
        return value;
    }

    /// The declared content size, if there is one. A frame with a dictionary or a checksum does not fit.
    [[nodiscard]] std::optional<std::uint64_t> header() noexcept;

    /// The header of the next block. One that is larger than blocks may be does not fit.
    [[nodiscard]] BlockHeader block() noexcept;
};

} // namespace headrace::zstd
