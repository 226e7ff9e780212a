#pragma once

#include "core/base/cpu.hpp"
#include "core/protobuf/wire.hpp"

namespace headrace::proto {

/// Returned for a run that ends within a varint, holds one of more than ten bytes, or holds more than there is room
/// for. Reading it value by value finds the fault.
inline constexpr std::size_t irregular = SIZE_MAX;

/// The number of bytes that end a varint (those below 0x80).
[[nodiscard]] std::size_t count_varints(Bytes run, const Cpu& cpu = this_cpu) noexcept;

/// Decodes a packed run of varints to little-endian 64-bit integers. `to` has room for `room` of them, and may be
/// overwritten up to its end. Bits beyond the 64th are dropped. Returns how many there are, or `irregular`.
[[nodiscard]] std::size_t decode_varints(Bytes run, std::byte* to, std::size_t room,
                                         const Cpu& cpu = this_cpu) noexcept;

/// Decodes a run of one varint of up to three bytes to `to`. False, with nothing done, for any other.
[[nodiscard]] inline bool decode_one(Bytes run, std::byte* to) noexcept {
    if (run.empty() || run.size() > 3) return false;
    std::uint32_t value = 0, marks = 0;
    for (std::size_t i = 0; i < run.size(); ++i) {
        const auto byte = std::to_integer<std::uint32_t>(run[i]);
        value |= (byte & 0x7F) << 7 * i;
        marks |= (byte >> 7) << i;
    }
    if (marks != (1U << (run.size() - 1)) - 1) return false;
    store_le<std::uint64_t>(to, value);
    return true;
}

/// The size of `count` 64-bit integers as varints.
[[nodiscard]] std::size_t varints_size(const std::byte* numbers, std::size_t count, const Cpu& cpu = this_cpu) noexcept;

/// Writes `count` 64-bit integers as varints, from memory that others may change. They were measured before and have
/// the bytes up to `end`. The bytes from `end` to `room` are written later, so this may overwrite them. Throws
/// FormatError{changed} if the numbers now take more or fewer bytes.
std::byte* write_varints(std::byte* to, const std::byte* end, const std::byte* room, const std::byte* numbers,
                         std::size_t count, const Cpu& cpu = this_cpu);

} // namespace headrace::proto
