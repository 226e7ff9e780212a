#pragma once

#include "core/base/cpu.hpp"
#include "core/base/cursor.hpp"

namespace headrace {

/// CRC-32 of GZIP and PNG (reflected polynomial 0xEDB88320, initial and final xor 0xFFFFFFFF) of `data`, continuing
/// from the CRC `before`. Uses carry-less multiplication if the processor has it, else tables.
[[nodiscard]] std::uint32_t crc32(Bytes data, std::uint32_t before = 0, const Cpu& cpu = this_cpu) noexcept;

/// The CRC-32 of two concatenated parts: the first has the CRC `first`, the second has `size` bytes and the CRC
/// `second`.
[[nodiscard]] std::uint32_t join_crc32(std::uint32_t first, std::uint32_t second, std::uint64_t size) noexcept;

} // namespace headrace
