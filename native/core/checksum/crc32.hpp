#pragma once

#include "core/base/cpu.hpp"
#include "core/base/cursor.hpp"

namespace headrace {

/// CRC-32 as GZIP and PNG have it (reflected polynomial 0xEDB88320, start and end xor 0xFFFFFFFF) of `data`, continuing
/// from the CRC of what came before it. By carry-less multiplication where the processor has it, else by tables.
[[nodiscard]] std::uint32_t crc32(Bytes data, std::uint32_t before = 0, const Cpu& cpu = this_cpu) noexcept;

/// The CRC-32 of two parts together: the first has the CRC `first`, the second has `size` bytes and the CRC `second`.
[[nodiscard]] std::uint32_t join_crc32(std::uint32_t first, std::uint32_t second, std::uint64_t size) noexcept;

} // namespace headrace
