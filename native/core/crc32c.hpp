#pragma once

#include "core/cursor.hpp"

namespace headrace {

/// CRC-32C (Castagnoli: reflected polynomial 0x82F63B78, start and end xor 0xFFFFFFFF) of `data`, continuing from the
/// CRC of what came before it. By the processor's own instruction where it has one, chosen at run time.
[[nodiscard]] std::uint32_t crc32c(Bytes data, std::uint32_t before = 0) noexcept;

/// The CRC of `data` alone, while memory brings `next` into the cache: requests that are spread over the work do not wait for each other.
[[nodiscard]] std::uint32_t crc32c_fetching(Bytes data, Bytes next) noexcept;

/// `crc32c` by tables alone, whatever the processor can do. For tests and other processors.
[[nodiscard]] std::uint32_t crc32c_by_tables(Bytes data, std::uint32_t before = 0) noexcept;

/// What `crc32c` uses here: "sse4.2", "armv8" or "table".
[[nodiscard]] const char* crc32c_engine() noexcept;

/// The mask of TFRecord files: a CRC that is stored beside its own data would otherwise checksum to a constant.
[[nodiscard]] constexpr std::uint32_t mask_crc(std::uint32_t crc) noexcept {
    return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

} // namespace headrace
