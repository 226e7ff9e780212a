#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/cpu.hpp"
#include "core/engines/jpeg/header.hpp"

#if defined(_MSC_VER)
#include <cstdlib>
#endif

namespace headrace::jpeg {

inline constexpr unsigned few_bits = 9; ///< Of codes in a small table.

/// The meaning of the next bits of a scan. A step leads over the zeros before a coefficient.
///
/// There is one coefficient or there are two. The magnitude of the last one may be open: its bits end those of the
/// entry, and are added to `second`. Its sign is always known. Each field is a load, because loads that depend on
/// nothing but the place of the entry are cheaper than shifts.
struct Entry {
    std::uint8_t bits = 0;        ///< With all magnitudes. 0: the code is longer than those of the table.
    std::uint8_t step = 0;        ///< More than `beyond`: the block ends.
    std::uint8_t second_step = 0; ///< 0: there is no second coefficient.
    std::uint8_t open_bits = 0;   ///< Of the open magnitude.
    std::int16_t first = 0;  ///< Of two. Before a single one, the bits of its code: it is stored at the same place.
    std::int16_t second = 0; ///< The last coefficient, or what its magnitude is added to.

    [[nodiscard]] bool is_longer() const noexcept { return bits == 0; }

    /// One coefficient, all of which follows from `code_bits` of code and `size` of magnitude.
    static Entry one(std::int32_t value, std::size_t step, unsigned code_bits, unsigned size) noexcept {
        return {static_cast<std::uint8_t>(code_bits + size), static_cast<std::uint8_t>(step), 0, 0,
                static_cast<std::int16_t>(code_bits),        static_cast<std::int16_t>(value)};
    }
    /// One coefficient of which only the sign is known.
    static Entry open(bool is_negative, std::size_t step, unsigned code_bits, unsigned size) noexcept {
        // A magnitude that begins with 0 is that of a negative number, less by all ones.
        Entry entry = one(is_negative ? 1 - (std::int32_t{1} << size) : 0, step, code_bits, size);
        entry.open_bits = static_cast<std::uint8_t>(size);
        return entry;
    }
};

/// The next bits of a stretch of a scan. The caller must not read more than `Stretches::room` bytes behind the last
/// one.
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

/// A Huffman code as a table: a lookup gives one coefficient, or two if both are short. Means come alone, and those of
/// photographs are seldom seen whole, so their table is smaller and leaves the nearest cache to the others.
template <bool is_ac> class CodeTable {
  public:
    static constexpr unsigned index_bits = is_ac ? 11 : few_bits;

    /// Makes the table, unless it is there. With `is_short` only codes of up to `few_bits` are in it, until the same
    /// codes come again: that takes a quarter of the time.
    void build(const Codes& codes, bool is_short = false);

    /// How many bits of a code it knows.
    [[nodiscard]] unsigned width() const noexcept { return width_; }

    /// The entry for the uppermost bits. `longer` has to look if it `is_longer`.
    [[nodiscard]] HEADRACE_INLINE const Entry& next(std::uint64_t bits) const noexcept {
        return entries_[bits >> (64 - index_bits)];
    }
    /// Consumes a code that is too long for the table, and refills the bits. Sets `to` to its one coefficient, whose
    /// magnitude is not consumed, or to a step out of the block if there is no such code.
    [[nodiscard]] Bits longer(Bits bits, Entry& to) const noexcept;

    /// The first coefficient alone, and nothing of the next one.
    [[nodiscard]] Entry alone(std::uint64_t bits) const noexcept { return find(bits, 1); }

  private:
    void pair_up();
    [[nodiscard]] Entry find(std::uint64_t bits, unsigned least) const noexcept;

    std::array<Entry, std::size_t{1} << index_bits> entries_;
    std::array<std::uint32_t, 17> limits_; ///< By length: the first 16 bits beyond all codes of up to that length.
    std::array<std::int32_t, 17> offsets_; ///< By length: added to a code, it gives the place of its symbol.
    Codes codes_;
    unsigned width_ = index_bits;
    bool is_built_ = false;
};

extern template class CodeTable<false>;
extern template class CodeTable<true>;

/// The coefficients of a scan without the bytes that JPEG stuffs between them.
struct Stretches {
    std::vector<std::byte> bytes;  ///< All stretches, and `room` bytes that may be read.
    std::vector<std::size_t> ends; ///< The end of each stretch between restart markers.
    static constexpr std::size_t room = 512;

    unsigned marker = 0; ///< The marker behind the scan.

    /// Returns where that marker is, or 0 if there is none, or the restart markers are not in order.
    [[nodiscard]] std::size_t fill(Bytes scan);
};

/// Consumes an entry of so many bits. Returns its last coefficient, in the lowest 16 bits. There is no branch that
/// depends on the data: a misprediction costs more than all else here. Without an open magnitude, nothing is added.
HEADRACE_INLINE std::uint64_t consume(const Entry& entry, unsigned by, Bits& bits) noexcept {
    const std::uint64_t ended = bits.next << by | bits.next >> (-by & 63);
    bits.next <<= by;
    bits.count -= by;
    return static_cast<std::uint16_t>(entry.second) + (ended & ((std::uint64_t{1} << entry.open_bits) - 1));
}

/// The 64 coefficients of a block in rows, as stored; `block` holds 65 numbers, the first 64 of them 0.
/// Returns the place in the zigzag order from which all are 0 (1: there is only a mean), or 0 if the bits are no block.
HEADRACE_INLINE unsigned next_block(const CodeTable<false>& dc, const CodeTable<true>& ac, Bits& bits,
                                    std::uint32_t& mean, std::int16_t* block) noexcept {
    // The place of an entry is known before its bits are refilled, so that loading it does not wait for that.
    Entry longer;
    const Entry* entry = &dc.next(bits.next);
    bits.refill();
    unsigned size = entry->bits; // In a register before the branch: the next lookup waits for it.
    if (size == 0) [[unlikely]] {
        bits = dc.longer(bits, longer);
        entry = &longer;
        size = longer.bits;
        if (longer.step != 1) return 0;
    }
    const auto difference = static_cast<std::int16_t>(consume(*entry, size, bits));
    mean += static_cast<std::uint32_t>(std::int32_t{difference}); // Unsigned: forged sums may wrap.
    block[0] = static_cast<std::int16_t>(mean);
    std::size_t k = 0; // The place of the last coefficient.
    std::size_t first = 0;
    const auto step = [&]() HEADRACE_INLINE_LAMBDA {
        size = entry->bits;
        if (size == 0) [[unlikely]] {
            bits = ac.longer(bits, longer);
            entry = &longer;
            size = longer.bits;
        }
        const std::uint64_t second = consume(*entry, size, bits);
        first = k + entry->step;
        block[zigzag[first]] = entry->first;
        k = first + entry->second_step;
        block[zigzag[k]] = static_cast<std::int16_t>(second);
    };
    do { // At most 20 bits, and again: one refill is enough for two, and the place of the one after them.
        entry = &ac.next(bits.next);
        bits.refill();
        step();
        if (k >= 63) break;
        entry = &ac.next(bits.next);
        step();
    } while (k < 63);
    if (first >= 63 && first != k) { // The second one is the next block's.
        bits.rewind(size);
        bits.drop(ac.alone(bits.next).bits);
        k = first;
    }
    if (k > beyond) return static_cast<unsigned>(k - beyond);
    return k == 63 ? 64 : 0; // Else a run went past the end.
}

} // namespace headrace::jpeg
