#pragma once

#include <array>

#include "core/cursor.hpp"

namespace headrace::zstd {

/// The literals of a block.
struct Literals {
    Bytes bytes;
    std::size_t readable = 0; ///< How many bytes can be read from their beginning, the ones behind them too.
};

/// How literals and matches make up blocks, one after the other. Source: RFC 8878, section 3.1.1.3.2, and for what comes first in a
/// frame, section 3.1.1.5.
class Sequences {
  public:
    /// Goes back to how a frame begins.
    void reset() noexcept;

    /// Unpacks a block: `section` is what follows its literals in it, and eight bytes before that are readable. `target` is where it goes
    /// and as far as it may; matches reach back to `begin`. Returns how many bytes it has, or `unsound`.
    [[nodiscard]] std::size_t unpack(Bytes section, Literals literals, const std::byte* begin, std::span<std::byte> target) noexcept;

    static constexpr std::size_t unsound = ~std::size_t{0};
    static constexpr std::size_t slack = 32; ///< Bytes behind literals that make copying them fast where they are `readable`.

    /// One state of one of the three tables.
    struct Cell {
        std::uint16_t base;  ///< Of the next state.
        std::uint8_t bits;   ///< Of the next state, added to its base.
        std::uint8_t extra;  ///< Bits of the value, added to it.
        std::uint32_t value;
    };

  private:
    static constexpr unsigned most_log = 9;

    struct Table {
        std::array<Cell, std::size_t{1} << most_log> cells;
        unsigned log = 0;
        bool known = false;
    };

    struct Kind;
    static const Kind literal_lengths, offsets, match_lengths;

    [[nodiscard]] static bool read_table(Bytes& section, unsigned mode, const Kind& kind, Table& table) noexcept;

    Table literal_length_, offset_, match_length_;
    std::array<std::size_t, 3> recent_{};
};

} // namespace headrace::zstd
