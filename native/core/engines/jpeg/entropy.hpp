#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/cpu.hpp"
#include "core/engines/jpeg/header.hpp"

#if defined(_MSC_VER)
#include <cstdlib>
#endif

namespace headrace::jpeg {

inline constexpr unsigned peeked_bits = 11; ///< Of a whole table.
inline constexpr unsigned few_bits = 9;     ///< Of one for few codes: making it takes a quarter of the time.

/// The meaning of the next bits of a scan, in one word. One load finds all of it, and the next lookup depends only on
/// its lowest bits, which serve as the count of a shift as they are. A step leads over the zeros before a coefficient.
///
/// There is one coefficient or there are two. The magnitude of the last one may be open: it follows the entry's codes.
/// A coefficient alone is both of them, and the second step is 0.
class Entry {
  public:
    Entry() = default; ///< Of a code longer than those of the table.
    /// One coefficient, of which `bits` hold all. `code_bits` of them are its code.
    static constexpr Entry of(std::int32_t value, std::size_t step, unsigned bits, unsigned code_bits) noexcept {
        return Entry(bits | step << 8 | code(code_bits, bits) | field(value) << 32 | field(value * 16) << 48);
    }
    /// One coefficient whose magnitude, of `size` bits, follows a code of `bits`.
    static constexpr Entry open(unsigned size, std::size_t step, unsigned bits) noexcept {
        return Entry((bits + size) | step << 8 | code(bits, 0) | std::uint64_t{size} << 48);
    }
    /// Two, the first of them not open.
    static constexpr Entry two(Entry first, Entry second) noexcept {
        return Entry((first.bits() + second.bits()) | first.step() << 8 | second.step() << 16 |
                     code(first.bits() + second.code_bits(), first.bits()) | field(first.value()) << 32 |
                     second.word_ >> 48 << 48);
    }

    [[nodiscard]] constexpr std::uint64_t word() const noexcept { return word_; }            ///< To shift by.
    [[nodiscard]] constexpr unsigned bits() const noexcept { return word_ & 63; }            ///< With all magnitudes.
    [[nodiscard]] constexpr bool is_longer() const noexcept { return word_ == 0; }           ///< See the constructor.
    [[nodiscard]] constexpr unsigned open_size() const noexcept { return word_ >> 48 & 15; } ///< 0: none is open.
    /// More than `beyond`: the block ends.
    [[nodiscard]] constexpr std::size_t step() const noexcept { return word_ >> 8 & 255; }
    /// 0: there is no second one.
    [[nodiscard]] constexpr std::size_t second_step() const noexcept { return word_ >> 16 & 255; }
    /// Up to an open magnitude.
    [[nodiscard]] constexpr unsigned code_bits() const noexcept { return word_ >> 24 & 63; }
    /// Of the first one of two.
    [[nodiscard]] constexpr unsigned first_bits() const noexcept {
        return static_cast<unsigned>((word_ >> 6 & 3) | (word_ >> 30 & 3) << 2);
    }
    [[nodiscard]] constexpr std::int16_t value() const noexcept { return static_cast<std::int16_t>(word_ >> 32); }
    /// 0 if it is open.
    [[nodiscard]] constexpr std::int32_t second() const noexcept {
        return static_cast<std::int32_t>(static_cast<std::int64_t>(word_) >> 52);
    }

  private:
    static constexpr std::uint64_t field(std::int32_t value) noexcept { return static_cast<std::uint16_t>(value); }
    /// The bits of codes, and those of the first coefficient, at most 11, in two parts.
    static constexpr std::uint64_t code(unsigned bits, unsigned first) noexcept {
        return std::uint64_t{bits} << 24 | std::uint64_t{first & 3} << 6 | std::uint64_t{first >> 2 & 3} << 30;
    }
    explicit constexpr Entry(std::uint64_t word) noexcept : word_(word) {}
    std::uint64_t word_ = 0;
};

/// A Huffman code as a table: a lookup gives one coefficient, or two if both are short.
class CodeTable {
  public:
    /// Makes the table, unless it is there. With `is_short` it is a small one, until the same codes come again.
    void build(const Codes& codes, bool is_ac, bool is_short = false);

    /// How many bits a lookup sees.
    [[nodiscard]] unsigned width() const noexcept { return width_; }

    /// The entry for the uppermost bits. `longer` has to look if it `is_longer`.
    [[nodiscard]] HEADRACE_INLINE Entry next(std::uint64_t bits) const noexcept { return entries_[bits >> shift_]; }

    /// The same for a code longer than `width`. It `is_longer` if there is none.
    [[nodiscard]] Entry longer(std::uint64_t bits) const noexcept;

  private:
    void pair_up();

    std::array<Entry, std::size_t{1} << peeked_bits> entries_;
    std::array<std::uint32_t, 17> limits_; ///< By length: the first 16 bits beyond all codes of up to that length.
    std::array<std::int32_t, 17> offsets_; ///< By length: added to a code, it gives the place of its symbol.
    Codes codes_;
    unsigned width_ = peeked_bits;
    unsigned shift_ = 64 - peeked_bits;
    bool is_ac_ = false;
    bool is_built_ = false;
};

/// The coefficients of a scan without the bytes that JPEG stuffs between them.
struct Stretches {
    std::vector<std::byte> bytes;  ///< All stretches, and `room` bytes that may be read.
    std::vector<std::size_t> ends; ///< The end of each stretch between restart markers.
    static constexpr std::size_t room = 512;

    unsigned marker = 0; ///< The marker behind the scan.

    /// Returns where that marker is, or 0 if there is none, or the restart markers are not in order.
    [[nodiscard]] std::size_t fill(Bytes scan);
};

/// The next bits of a stretch. The caller must not read more than `Stretches::room` bytes behind the last one.
struct Bits {
    const std::byte* at = nullptr;
    std::uint64_t next = 0; ///< Uppermost bit first.
    std::uint64_t count =
        0; ///< The number of bits in `next`, in its lowest six bits: the others are left as they come.

    /// Loads at least 56 bits.
    HEADRACE_INLINE void refill() noexcept {
        next |= load_be(at) >> (count & 63);
        at += ~count >> 3 & 7;
        count |= 56;
    }
    /// Goes back over bits that were consumed.
    void rewind(unsigned by) noexcept {
        const auto back = static_cast<unsigned>(count & 63) + by;
        at -= (back + 7) / 8;
        const unsigned skipped = (back + 7) / 8 * 8 - back;
        next = load_be(at) << skipped;
        count = 56 - skipped;
        at += 7;
    }
    /// Drops the lowest six bits of `by`.
    HEADRACE_INLINE void drop(std::uint64_t by) noexcept {
        next <<= by & 63;
        count -= by;
    }
    static HEADRACE_INLINE std::uint64_t load_be(const std::byte* from) noexcept {
#if defined(_MSC_VER)
        return _byteswap_uint64(load_le<std::uint64_t>(from));
#else
        return __builtin_bswap64(load_le<std::uint64_t>(from));
#endif
    }
    /// Bits consumed since `begin`.
    [[nodiscard]] std::ptrdiff_t consumed(const std::byte* begin) const noexcept {
        return (at - begin) * 8 - static_cast<std::ptrdiff_t>(count & 63);
    }
};

/// The coefficients of an entry. The first of one alone is for nothing: the second is at the same place.
struct Values {
    std::int16_t first, second;
};

/// Consumes an entry, without a branch that depends on the data: a misprediction costs more than all else here. Of an
/// entry without open magnitude, no bits are read, and they add 0.
HEADRACE_INLINE Values consume(Entry entry, Bits& bits) noexcept {
    const std::uint64_t after_code = bits.next << (entry.word() >> 24 & 63);
    bits.drop(entry.word());
    const unsigned size = entry.open_size();
    // A magnitude that begins with 0 is that of a negative number, less by all ones.
    const std::uint64_t ones = (std::uint64_t{1} << size) - 1;
    const std::uint64_t less = static_cast<std::uint64_t>(static_cast<std::int64_t>(~after_code) >> 63) & ones;
    const auto read = static_cast<std::int32_t>((after_code >> 1 >> (63 - size)) - less);
    return {entry.value(), static_cast<std::int16_t>(entry.second() + read)};
}

/// The 64 coefficients of a block in rows, as stored; `block` holds 65 numbers, the first 64 of them 0.
/// Returns the place in the zigzag order from which all are 0 (1: there is only a mean), or 0 if the bits are no block.
HEADRACE_INLINE unsigned next_block(const CodeTable& dc, const CodeTable& ac, Bits& bits, std::uint32_t& mean,
                                    std::int16_t* block) noexcept {
    bits.refill();
    Entry entry = dc.next(bits.next);
    if (entry.is_longer()) [[unlikely]] {
        entry = dc.longer(bits.next);
        if (entry.is_longer()) return 0;
    }
    mean += static_cast<std::uint32_t>(std::int32_t{consume(entry, bits).second}); // Unsigned: forged sums may wrap.
    block[0] = static_cast<std::int16_t>(mean);
    std::size_t k = 0; // The place of the last coefficient.
    const auto step = [&]() HEADRACE_INLINE_LAMBDA {
        const Values values = consume(entry, bits);
        k += entry.step();
        block[zigzag[k]] = values.first;
        k += entry.second_step();
        block[zigzag[k]] = values.second;
    };
    while (true) {
        bits.refill();
        entry = ac.next(bits.next);
        if (!entry.is_longer()) [[likely]] { // At most 26 bits, and again: one refill is enough for two.
            step();
            if (k >= 63) break;
            entry = ac.next(bits.next);
        }
        if (entry.is_longer()) [[unlikely]] {
            entry = ac.longer(bits.next);
            if (entry.is_longer()) return 0;
        }
        step();
        if (k >= 63) break;
    }
    if (const std::size_t first = k - entry.second_step();
        first >= 63 && first != k) { // The second one is the next block's.
        bits.rewind(entry.bits() - entry.first_bits());
        k = first;
    }
    if (k > beyond) return static_cast<unsigned>(k - beyond);
    return k == 63 ? 64 : 0; // Else a run went past the end.
}

} // namespace headrace::jpeg
