#pragma once

#include <array>

#include "core/base/cpu.hpp"
#include "core/base/cursor.hpp"

namespace headrace::zstd {

/// The literals of a block.
struct Literals {
    Bytes bytes;
    std::size_t readable = 0; ///< Bytes that may be read from their beginning, including some behind them.
};

/// Combines literals and matches into blocks. It keeps its tables and distances from block to block of a frame. Source:
/// RFC 8878, sections 3.1.1.3.2 and 3.1.1.5.
class Sequences {
  public:
    /// Back to the state at the start of a frame.
    void reset() noexcept;

    /// Decompresses a block into `target`. `section` follows the literals in the block, and the eight bytes before it
    /// must be readable. Matches reach back to `begin`. Returns the size of the block in bytes, or `unsound`.
    [[nodiscard]] std::size_t decompress(Bytes section, Literals literals, const std::byte* begin,
                                         std::span<std::byte> target, const Cpu& cpu = this_cpu) noexcept;

    static constexpr std::size_t unsound = ~std::size_t{0};
    /// Literals followed by this many `readable` bytes are copied faster.
    static constexpr std::size_t slack = 32;

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
    struct Run;
    static const Kind literal_lengths, offsets, match_lengths;

    [[nodiscard]] static bool read_table(Bytes& section, unsigned mode, const Kind& kind, Table& table) noexcept;

    Table literal_length_, offset_, match_length_;
    std::array<std::size_t, 3> recent_{};
};

} // namespace headrace::zstd

/// Finite state entropy, as Zstandard uses it. Source: RFC 8878, section 4.1.
namespace headrace::zstd {

/// How often each symbol occurs, out of 2^log. -1 is less than once.
struct FseCounts {
    std::array<std::int16_t, 256> of{};
    unsigned symbols = 0; ///< How many counts are set.
    unsigned log = 0;
};

/// Reads counts. Returns their size in bytes, or 0 if they are unsound, exceed 2^most_log, or have too many symbols.
[[nodiscard]] std::size_t read_fse_counts(Bytes from, unsigned most_log, unsigned most_symbols,
                                          FseCounts& counts) noexcept;

/// One state: its symbol, and the next state: that many bits, added to the base.
struct FseCell {
    std::uint8_t symbol;
    std::uint8_t bits;
    std::uint16_t base;
};

/// Makes the 2^log states of some counts.
void build_fse_cells(const FseCounts& counts, std::span<FseCell> cells) noexcept;

/// Bytes before a stream that must be readable: whole words are loaded, even if only their last bytes belong to it.
inline constexpr std::ptrdiff_t readable_before = 8;

/// Reads bits backwards from the last set bit of the last byte. Past the beginning it gives the bytes before the
/// stream; see `left`. Source: RFC 8878, section 4.1.
class BackwardBits {
  public:
    /// False if there is no stream: it is empty, or its last byte is 0.
    [[nodiscard]] bool open(Bytes stream) noexcept {
        if (stream.empty() || stream.back() == std::byte{0}) return false;
        begin_ = stream.data();
        at_ = stream.data() + stream.size() - sizeof word_;
        word_ = load_le<std::uint64_t>(at_);
        used_ = static_cast<unsigned>(std::countl_zero(std::to_integer<std::uint8_t>(stream.back()))) + 1;
        return refill();
    }

    /// The next `count` bits; 0 for none. At most 56 may be taken between two calls of `refill`.
    [[nodiscard]] HEADRACE_INLINE std::uint64_t take(unsigned count) noexcept {
        const std::uint64_t bits = word_ << used_ >> 1 >> (63 - count);
        used_ += count;
        return bits;
    }

    /// Loads the next 56 bits. False if more were taken than there were; then nothing is left.
    HEADRACE_INLINE bool refill() noexcept {
        at_ -= used_ >> 3;
        used_ &= 7;
        if (at_ - begin_ < -readable_before) {
            at_ = begin_ - readable_before;
            used_ = 8; // Any further bit is too much.
            return false;
        }
        word_ = load_le<std::uint64_t>(at_);
        return true;
    }

    /// The number of bits left; negative if more were taken than there were.
    [[nodiscard]] std::ptrdiff_t left() const noexcept {
        return (at_ - begin_ + readable_before) * 8 - static_cast<std::ptrdiff_t>(used_);
    }

  private:
    const std::byte* begin_ = nullptr;
    const std::byte* at_ = nullptr; // of the loaded word
    std::uint64_t word_ = 0;
    unsigned used_ = 0; // bits of the word, from its top
};

} // namespace headrace::zstd
