#pragma once

#include <array>

#include "core/base/cpu.hpp"
#include "core/base/cursor.hpp"

namespace headrace {

/// CRC-32C (Castagnoli: reflected polynomial 0x82F63B78, initial and final xor 0xFFFFFFFF) of `data`, continuing from
/// the CRC `before`. Uses the processor's CRC instruction if it has one, else tables.
[[nodiscard]] std::uint32_t crc32c(Bytes data, std::uint32_t before = 0, const Cpu& cpu = this_cpu) noexcept;

/// The CRC of `data`. Meanwhile prefetches `next` a few lines at a time, so that cache misses overlap with the work.
[[nodiscard]] std::uint32_t crc32c_prefetching(Bytes data, Bytes next, const Cpu& cpu = this_cpu) noexcept;

/// The implementation that `crc32c` uses: "sse4.2", "armv8" or "table".
[[nodiscard]] const char* crc32c_engine(const Cpu& cpu = this_cpu) noexcept;

/// The mask of TFRecord files. Without it, data followed by its own CRC would always have the same CRC.
[[nodiscard]] constexpr std::uint32_t mask_crc(std::uint32_t crc) noexcept {
    return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

/// A 32-bit CRC with a reflected polynomial, by slicing-by-8: table k holds the CRC of a byte followed by k zero bytes.
template <std::uint32_t polynomial> class CrcTables {
  public:
    using Table = std::array<std::uint32_t, 256>;

    /// Appends one byte to `crc`.
    [[nodiscard]] static constexpr std::uint32_t step(std::uint32_t crc, std::byte byte) noexcept {
        return (crc >> 8) ^ slices[0][(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xFF];
    }

    /// Appends bytes to `crc`, without initial and final inversion.
    [[nodiscard]] static std::uint32_t update(std::uint32_t crc, Bytes data) noexcept {
        const std::byte* at = data.data();
        std::size_t size = data.size();
        for (; size >= 8; size -= 8, at += 8) {
            const std::uint64_t word = load_le<std::uint64_t>(at) ^ crc;
            crc = slices[7][word & 0xFF] ^ slices[6][word >> 8 & 0xFF] ^ slices[5][word >> 16 & 0xFF] ^
                  slices[4][word >> 24 & 0xFF] ^ slices[3][word >> 32 & 0xFF] ^ slices[2][word >> 40 & 0xFF] ^
                  slices[1][word >> 48 & 0xFF] ^ slices[0][word >> 56];
        }
        for (; size != 0; --size) crc = step(crc, *at++);
        return crc;
    }

    /// x to the power of `bits`, modulo the polynomial, with bit 0 as the highest power. Shifted up by one bit, as
    /// multiplying reflected halves requires.
    [[nodiscard]] static constexpr std::uint64_t power(unsigned bits) noexcept {
        std::uint32_t value = 0x80000000U; // one
        for (unsigned i = 0; i < bits; ++i) value = (value >> 1) ^ ((value & 1) != 0 ? polynomial : 0);
        return std::uint64_t{value} << 1;
    }

  private:
    static constexpr std::array<Table, 8> slices = [] {
        std::array<Table, 8> made{};
        for (std::uint32_t byte = 0; byte < 256; ++byte) {
            std::uint32_t crc = byte;
            for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0);
            made[0][byte] = crc;
        }
        for (std::size_t k = 1; k < 8; ++k)
            for (std::size_t byte = 0; byte < 256; ++byte)
                made[k][byte] = (made[k - 1][byte] >> 8) ^ made[0][made[k - 1][byte] & 0xFF];
        return made;
    }();
};

} // namespace headrace
