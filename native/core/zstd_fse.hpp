#pragma once

#include <array>

#include "core/cursor.hpp"

/// Finite state entropy, as Zstandard uses it. Source: RFC 8878, section 4.1.
namespace headrace::zstd {

/// How often each symbol comes, in parts of 2^log. -1 stands for less than one part.
struct FseCounts {
    std::array<std::int16_t, 256> of{};
    unsigned symbols = 0; ///< How many of them are set.
    unsigned log = 0;
};

/// Reads counts. Returns how many bytes they take; 0 where they are unsound, finer than 2^most_log, or of more symbols than that.
[[nodiscard]] std::size_t read_fse_counts(Bytes from, unsigned most_log, unsigned most_symbols, FseCounts& counts) noexcept;

/// One state: its symbol, and how the next state comes about: that many bits, added to the base.
struct FseCell {
    std::uint8_t symbol;
    std::uint8_t bits;
    std::uint16_t base;
};

/// The states of counts that were read: 2^log of them.
void build_fse_cells(const FseCounts& counts, std::span<FseCell> cells) noexcept;

} // namespace headrace::zstd
