#pragma once

#include <array>

#include "core/base/cursor.hpp"

namespace headrace::zstd {

/// The literals of a block.
struct Literals {
    Bytes bytes;
    std::size_t readable = 0; ///< How many bytes can be read from their beginning, the ones behind them too.
};

/// How literals and matches make up blocks, one after the other. Source: RFC 8878, section 3.1.1.3.2, and for what
/// comes first in a frame, section 3.1.1.5.
class Sequences {
  public:
    /// Goes back to how a frame begins.
    void reset() noexcept;

    /// Unpacks a block: `section` is what follows its literals in it, and eight bytes before that are readable.
    /// `target` is where it goes and as far as it may; matches reach back to `begin`. Returns how many bytes it has, or
    /// `unsound`.
    [[nodiscard]] std::size_t unpack(Bytes section, Literals literals, const std::byte* begin,
                                     std::span<std::byte> target) noexcept;

    static constexpr std::size_t unsound = ~std::size_t{0};
    static constexpr std::size_t slack =
        32; ///< Bytes behind literals that make copying them fast where they are `readable`.

    /// One state of one of the three tables.
    struct Cell {
        std::uint16_t base; ///< Of the next state.
        std::uint8_t bits;  ///< Of the next state, added to its base.
        std::uint8_t extra; ///< Bits of the value, added to it.
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

/// Finite state entropy, as Zstandard uses it. Source: RFC 8878, section 4.1.
namespace headrace::zstd {

/// How often each symbol comes, in parts of 2^log. -1 stands for less than one part.
struct FseCounts {
    std::array<std::int16_t, 256> of{};
    unsigned symbols = 0; ///< How many of them are set.
    unsigned log = 0;
};

/// Reads counts. Returns how many bytes they take; 0 where they are unsound, finer than 2^most_log, or of more symbols
/// than that.
[[nodiscard]] std::size_t read_fse_counts(Bytes from, unsigned most_log, unsigned most_symbols,
                                          FseCounts& counts) noexcept;

/// One state: its symbol, and how the next state comes about: that many bits, added to the base.
struct FseCell {
    std::uint8_t symbol;
    std::uint8_t bits;
    std::uint16_t base;
};

/// The states of counts that were read: 2^log of them.
void build_fse_cells(const FseCounts& counts, std::span<FseCell> cells) noexcept;

/// How many bytes before a stream must be readable: whole words are loaded, also where only their last bytes belong to
/// it.
inline constexpr std::ptrdiff_t readable_before = 8;

/// Bits that were written forwards and are read backwards, from the last one set in the last byte. Source: RFC 8878,
/// section 4.1. What is read beyond the beginning is whatever lies before it: `left` tells.
class BackwardBits {
  public:
    /// False where there is no stream: it is empty, or its last byte is.
    [[nodiscard]] bool open(Bytes stream) noexcept {
        if (stream.empty() || stream.back() == std::byte{0}) return false;
        begin_ = stream.data();
        at_ = stream.data() + stream.size() - sizeof word_;
        word_ = load_le<std::uint64_t>(at_);
        used_ = static_cast<unsigned>(std::countl_zero(std::to_integer<std::uint8_t>(stream.back()))) + 1;
        return refill();
    }

    /// The next `count` bits; 0 for none. At most 56 may be taken between two calls of `refill`.
    [[nodiscard]] std::uint64_t take(unsigned count) noexcept {
        const std::uint64_t bits = word_ << used_ >> 1 >> (63 - count);
        used_ += count;
        return bits;
    }

    /// Makes 56 bits ready. False, with nothing changed but that the rest is gone, where more was taken than there was.
    bool refill() noexcept {
        at_ -= used_ >> 3;
        used_ &= 7;
        if (at_ - begin_ < -readable_before) {
            at_ = begin_ - readable_before;
            used_ = 8; // whatever comes, it is too much
            return false;
        }
        word_ = load_le<std::uint64_t>(at_);
        return true;
    }

    /// How many bits are left; negative where more were taken than there were.
    [[nodiscard]] std::ptrdiff_t left() const noexcept {
        return (at_ - begin_ + readable_before) * 8 - static_cast<std::ptrdiff_t>(used_);
    }

  private:
    const std::byte* begin_ = nullptr;
    const std::byte* at_ = nullptr; // where the word was loaded
    std::uint64_t word_ = 0;
    unsigned used_ = 0; // bits of the word, from its top
};

} // namespace headrace::zstd
