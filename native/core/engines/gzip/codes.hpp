#pragma once

#include <array>
#include <cstdint>

#include "core/base/cursor.hpp"

namespace headrace::deflate {

/// The bits of a Deflate stream from bit `at` on, the first lowest: 57 of them at least, with zeros for those behind
/// the end.
[[nodiscard]] inline std::uint64_t bits_at(Bytes data, std::uint64_t at) noexcept {
    const auto byte = static_cast<std::size_t>(at >> 3);
    if (byte + 8 <= data.size()) [[likely]]
        return load_le<std::uint64_t>(data.data() + byte) >> (at & 7);
    std::uint64_t word = 0;
    for (std::size_t i = byte; i < data.size(); ++i)
        word |= std::to_integer<std::uint64_t>(data[i]) << (8 * (i - byte));
    return word >> (at & 7);
}

/// A symbol and the bits of its code; `bits` is 0 where there is no such code.
struct Symbol {
    unsigned value;
    unsigned bits;
};

/// The codes of up to 15 bits of one alphabet, by length: for those too long or too rare for a table. Source: RFC 1951,
/// section 3.2.2.
class Canonical {
  public:
    enum class Kind { complete, single, empty, wrong };

    /// From the lengths of the codes; `single` is one code of one bit, the only incomplete set that is allowed.
    [[nodiscard]] Kind open(const std::uint8_t* lengths, unsigned count) noexcept;

    /// The first code of all that `bits` begin with.
    [[nodiscard]] Symbol find(std::uint64_t bits) const noexcept;

    [[nodiscard]] unsigned longest() const noexcept;

    /// The code that a symbol's turn of that length has, lowest bit first.
    [[nodiscard]] unsigned next_code(unsigned length) noexcept;

    /// The symbols that have a code, in the order of their codes, and how many have one of that length.
    [[nodiscard]] const std::uint16_t* sorted() const noexcept { return sorted_.data(); }
    [[nodiscard]] unsigned count(unsigned length) const noexcept { return counts_[length]; }

  private:
    std::array<std::uint16_t, 16> counts_{}, first_{}, offset_{}, next_{};
    std::array<std::uint16_t, 288> sorted_{};
};

/// One entry of `Codes::literals`. Of one or two literals, least significant bit first: 8 bits, the length of their
/// codes together; 8 bits, how many they are; 16 bits, the literals. Of anything else: 7 bits, zeros; one set; 8 bits,
/// zeros; 9 bits, the symbol; 4 bits, the length of its code, 0 for a code that is longer than the table is wide, or
/// for none at all.
using Entry = std::uint32_t;

inline constexpr Entry other_flag = 0x80;
inline constexpr unsigned end_of_block = 256;

/// What the codes of a block mean.
struct Codes {
    static constexpr unsigned literal_bits = 11; // with four lanes, the tables just fit into 32 KB of the first cache
    static constexpr unsigned distance_bits = 8;

    std::array<Entry, std::size_t{1} << literal_bits> literals;
    std::array<std::uint16_t, std::size_t{1} << distance_bits>
        distances; ///< 4 bits length (0: see `far`), then the symbol.
    Canonical long_literals, far;
    double literal_share = 0; ///< Of all symbols, how many are literals, if each is as frequent as its code is short.

    /// Reads the lengths of the codes, behind the three bits that begin a block with codes of its own, and makes the
    /// tables. False where they are not sound or not complete; `at` moves behind them. With `quick`, no tables.
    [[nodiscard]] bool read(Bytes data, std::uint64_t& at, bool quick = false) noexcept;

    /// The codes that the format fixes.
    void fix() noexcept;

    [[nodiscard]] Symbol distance(std::uint64_t bits) const noexcept {
        const unsigned entry = distances[bits & (distances.size() - 1)];
        return (entry & 15) != 0 ? Symbol{entry >> 4, entry & 15} : far.find(bits);
    }

  private:
    void make_literals(const std::uint8_t* lengths, unsigned count) noexcept;
    void make_distances(const std::uint8_t* lengths, unsigned count) noexcept;
};

/// The first bit from `from` on, before `until`, at which a block with codes of its own may begin that is not the last
/// of its stream; `until` where there is none.
[[nodiscard]] std::uint64_t find_block(Bytes data, std::uint64_t from, std::uint64_t until, Codes& room) noexcept;

} // namespace headrace::deflate
