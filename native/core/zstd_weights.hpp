#pragma once

#include <array>

#include "core/cursor.hpp"

namespace headrace::zstd {

/// What tells how long the code of each symbol is: the greater, the shorter; 0 for symbols that have none. Source: RFC 8878, section 4.2.1.
struct Weights {
    std::array<std::uint8_t, 256> of{};
    std::size_t count = 0;     ///< That of the last symbol is not given: it follows from the others. Behind them there are zeros.
    std::uint16_t present = 0; ///< All weights that come, and maybe others, as bits.
};

/// Reads the description of a code. Returns how many bytes it takes; 0 where it is unsound. Eight bytes before it are readable.
[[nodiscard]] std::size_t read_weights(Bytes from, Weights& weights) noexcept;

/// Does that with two by turns. `sizes` are what `read_weights` returns.
void read_two_weights(const std::array<Bytes, 2>& from, std::array<Weights, 2>& weights, std::array<std::size_t, 2>& sizes) noexcept;

} // namespace headrace::zstd
