#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/base/cpu.hpp"

namespace headrace {

inline constexpr std::size_t block_bytes = 64;

/// Four bytes to find in text. They may be equal.
using Marks = std::array<char, 4>;

/// Where each mark is in 64 bytes: bit i stands for byte i.
struct MarkMasks {
    std::array<std::uint64_t, 4> of{};
};

/// Finds the marks in `blocks` blocks of 64 bytes. Reads each byte once.
void find_marks(const char* text, std::size_t blocks, const Marks& marks, MarkMasks* out,
                const Cpu& cpu = this_cpu) noexcept;

/// Writes the places of the bits that are set in `count` masks: bit i of mask k is at `first` + 64 k + i. Returns the
/// end. `out` has room for `spare_places` more, which may be written, too.
[[nodiscard]] std::uint32_t* put_places(const std::uint64_t* masks, std::size_t count, std::uint32_t first,
                                        std::uint32_t* out, const Cpu& cpu = this_cpu) noexcept;
inline constexpr std::size_t spare_places = 16;

/// How many bits are set in `count` masks.
[[nodiscard]] std::size_t count_places(const std::uint64_t* masks, std::size_t count,
                                       const Cpu& cpu = this_cpu) noexcept;

/// Bit i is the parity of bits 0 to i: it is set from the first mark up to before the second, and so on.
[[nodiscard]] constexpr std::uint64_t between_marks(std::uint64_t marks) noexcept {
    for (unsigned shift = 1; shift < block_bytes; shift *= 2) marks ^= marks << shift;
    return marks;
}

/// The same for `count` masks, each by itself.
void find_between(const std::uint64_t* marks, std::size_t count, std::uint64_t* out,
                  const Cpu& cpu = this_cpu) noexcept;

} // namespace headrace
