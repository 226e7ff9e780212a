#pragma once

#include <optional>

#include "core/base/cursor.hpp"

namespace headrace {

/// Zstandard frames that need no decompressor. The compressor stores very few bytes, and bytes that do not compress, in
/// raw blocks. Source: RFC 8878, section 3.1.1.

/// The content size that a frame declares, if any.
[[nodiscard]] std::optional<std::uint64_t> zstd_declared_size(Bytes frame) noexcept;

/// The content as a view of `frame`, if it is one raw block of exactly `size` bytes.
[[nodiscard]] std::optional<Bytes> zstd_raw_content(Bytes frame, std::uint64_t size) noexcept;

/// The size of a frame with `size` bytes in one raw block. At most 255 bytes can be written so.
[[nodiscard]] constexpr std::size_t stored_zstd_size(std::size_t size) noexcept { return size + 9; }

/// Writes up to 255 bytes as a frame of one raw block. The compressor itself writes fewer than seven bytes so.
std::byte* write_stored_zstd(std::byte* to, Bytes content) noexcept;

} // namespace headrace
