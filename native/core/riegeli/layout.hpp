#pragma once

#include <optional>
#include <vector>

#include "core/base/cursor.hpp"

/// Riegeli/records files: chunks, interrupted by a 24-byte block header at every multiple of 64 KiB. Source: the
/// Riegeli project, doc/riegeli_records_file_format.md.
namespace headrace::riegeli {

inline constexpr std::uint64_t block_size = 65536;
inline constexpr std::uint64_t block_header_size = 24;
inline constexpr std::uint64_t usable_block_size = block_size - block_header_size;
inline constexpr std::uint64_t chunk_header_size = 40;

/// Larger positions and sizes are rejected before any arithmetic, so that sums of a few of them cannot overflow.
inline constexpr std::uint64_t most_bytes = std::uint64_t{1} << 61;

/// Where `size` bytes that begin at `position` end, including the block headers between them.
[[nodiscard]] constexpr std::uint64_t end_with_headers(std::uint64_t position, std::uint64_t size) noexcept {
    const std::uint64_t in_block = (position + usable_block_size - 1) % block_size;
    return position + size + block_header_size * ((size + in_block) / usable_block_size);
}

/// The number of bytes up to the next block boundary; 0 on a boundary.
[[nodiscard]] constexpr std::uint64_t left_in_block(std::uint64_t position) noexcept {
    return (block_size - position % block_size) % block_size;
}

/// The next block boundary at or after `position`.
[[nodiscard]] constexpr std::uint64_t next_boundary(std::uint64_t position) noexcept {
    return position + left_in_block(position);
}

/// Whether a chunk may begin at `position`: on a boundary, or after a block header and at least one more byte.
[[nodiscard]] constexpr bool may_begin_chunk(std::uint64_t position) noexcept {
    return left_in_block(position) < usable_block_size;
}

/// The first position at or after `position` where a chunk may begin.
[[nodiscard]] constexpr std::uint64_t next_chunk_begin(std::uint64_t position) noexcept {
    const std::uint64_t left = left_in_block(position);
    return left < usable_block_size ? position : position + (left - (usable_block_size - 1));
}

/// Where a chunk ends: after its bytes, and late enough for every record to have a position of its own.
[[nodiscard]] constexpr std::uint64_t chunk_end(std::uint64_t begin, std::uint64_t data_size,
                                                std::uint64_t num_records) noexcept {
    const std::uint64_t end = end_with_headers(begin, chunk_header_size + data_size);
    const std::uint64_t least = next_chunk_begin(begin + num_records);
    return end < least ? least : end;
}

/// `position`, or the first byte after the block header if it falls into one.
[[nodiscard]] constexpr std::uint64_t behind_block_header(std::uint64_t position) noexcept {
    return position % block_size < block_header_size ? position - position % block_size + block_header_size : position;
}

/// The header at a block boundary.
struct BlockHeader {
    std::uint64_t previous_chunk; ///< Distance back to the start of the interrupted chunk; 0 if one begins here.
    std::uint64_t next_chunk;     ///< Distance forward to the end of that chunk.
};

/// The block header at `boundary`; nullopt if its hash is wrong or the file too short.
[[nodiscard]] std::optional<BlockHeader> read_block_header(Bytes file, std::uint64_t boundary) noexcept;

/// The positions of block headers with wrong hashes.
[[nodiscard]] std::vector<std::int64_t> bad_block_headers(Bytes file);

/// Writes a block header with its hash into 24 bytes.
void write_block_header(std::byte* to, BlockHeader header) noexcept;

/// Copies `size` bytes from `position` on, without block headers. The caller has checked that the file holds them.
void copy_without_headers(Bytes file, std::uint64_t position, std::uint64_t size, std::byte* to) noexcept;

/// Whether a block header interrupts `size` bytes that begin at `position` (which is not on one).
[[nodiscard]] constexpr bool is_interrupted(std::uint64_t position, std::uint64_t size) noexcept {
    return size != 0 && position / block_size != (position + size - 1) / block_size;
}

} // namespace headrace::riegeli
