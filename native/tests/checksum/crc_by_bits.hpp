#pragma once

#include "core/base/cursor.hpp"

namespace headrace::testing {

/// A 32-bit CRC with a reflected polynomial, computed bit by bit from its definition.
inline std::uint32_t crc_by_bits(Bytes data, std::uint32_t polynomial, std::uint32_t before = 0) {
    std::uint32_t crc = ~before;
    for (const std::byte byte : data) {
        crc ^= std::to_integer<std::uint32_t>(byte);
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0);
    }
    return ~crc;
}

} // namespace headrace::testing
