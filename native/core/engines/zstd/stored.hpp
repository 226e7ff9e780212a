#pragma once

#include <optional>

#include "core/base/cursor.hpp"

namespace headrace {

/// What can be done with a Zstandard frame without a decompressor. Many hold their content as it is, in raw blocks, or
/// as runs of one byte: that is what the compressor makes of bytes that do not compress, and of very few. Source: RFC
/// 8878, section 3.1.1.

/// The content size that a frame declares; nothing where it does not, or is no frame.
[[nodiscard]] std::optional<std::uint64_t> zstd_declared_size(Bytes frame) noexcept;

/// The content as a view of `frame`, where it is one raw block of exactly `size` bytes; nothing for every other frame.
[[nodiscard]] std::optional<Bytes> zstd_raw_content(Bytes frame, std::uint64_t size) noexcept;

/// How many bytes `size` bytes take as a frame of one raw block. At most 255 bytes can be written so.
[[nodiscard]] constexpr std::size_t stored_zstd_size(std::size_t size) noexcept { return size + 9; }

/// Writes up to 255 bytes as a frame of one raw block: what the compressor itself makes of fewer than seven bytes.
std::byte* write_stored_zstd(std::byte* to, Bytes content) noexcept;

} // namespace headrace
