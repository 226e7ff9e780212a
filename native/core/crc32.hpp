#pragma once

#include "core/cursor.hpp"

namespace penstock {

/// CRC-32 as GZIP and PNG have it (reflected polynomial 0xEDB88320, start and end xor 0xFFFFFFFF) of `data`, continuing from the CRC of what came
/// before it. By carry-less multiplication where the processor has it, chosen at run time.
[[nodiscard]] std::uint32_t crc32(Bytes data, std::uint32_t before = 0) noexcept;

/// The same by tables alone. For tests and other processors.
[[nodiscard]] std::uint32_t crc32_by_tables(Bytes data, std::uint32_t before = 0) noexcept;

} // namespace penstock
