#pragma once

#include "core/base/cursor.hpp"

namespace headrace {

/// CRC-32 as GZIP and PNG have it (reflected polynomial 0xEDB88320, start and end xor 0xFFFFFFFF) of `data`, continuing
/// from the CRC of what came before it. By carry-less multiplication where the processor has it, chosen at run time.
[[nodiscard]] std::uint32_t crc32(Bytes data, std::uint32_t before = 0) noexcept;

/// The CRC-32 of bytes of which the first have the CRC `first` and the others, `size` of them, the CRC `second`.
[[nodiscard]] std::uint32_t crc32_joined(std::uint32_t first, std::uint32_t second, std::uint64_t size) noexcept;

/// The same by tables alone. For tests and other processors.
[[nodiscard]] std::uint32_t crc32_by_tables(Bytes data, std::uint32_t before = 0) noexcept;

} // namespace headrace
