#pragma once

#include <array>
#include <cstdint>

#include "core/base/cursor.hpp"

namespace headrace::deflate {

/// At least 57 bits of a Deflate stream from bit `at` on, the first one lowest, with zeros behind the end.
[[nodiscard]] inline std::uint64_t bits_at(Bytes data, std::uint64_t at) noexcept {
    const auto byte = static_cast<std::size_t>(at >> 3);
    if (byte + 8 <= data.size()) [[likely]]
        return load_le<std::uint64_t>(data.data() + byte) >> (at & 7);
    std::uint64_t word = 0;
    for (std::size_t i = byte; i < data.size(); ++i)
        word |= std::to_integer<std::uint64_t>(data[i]) << (8 * (i - byte));
    return word >> (at & 7);
}

/// A symbol and the length of its code; `bits` is 0 if there is none.
struct Symbol {
    unsigned value;
    unsigned bits;
};

/// The codes of one alphabet, of up to 15 bits, by length: for codes that are too long or too rare for a table. Source:
/// RFC 1951, section 3.2.2.
class Canonical {
  public:
    enum class Kind { complete, single, empty, wrong };

    /// Takes the lengths of the codes. `single` is one code of one bit, the only incomplete set that is allowed.
    [[nodiscard]] Kind open(const std::uint8_t* lengths, unsigned count) noexcept;

    /// The code that `bits` begin with.
    [[nodiscard]] Symbol find(std::uint64_t bits) const noexcept;

    [[nodiscard]] unsigned longest() const noexcept;

    /// The code of the next symbol of this length, lowest bit first.
    [[nodiscard]] unsigned next_code(unsigned length) noexcept;

    /// The symbols with a code, in the order of their codes, and how many have a code of some length.
    [[nodiscard]] const std::uint16_t* sorted() const noexcept { return sorted_.data(); }
    [[nodiscard]] unsigned count(unsigned length) const noexcept { return counts_[length]; }

  private:
    std::array<std::uint16_t, 16> counts_{}, first_{}, offset_{}, next_{};
    std::array<std::uint16_t, 288> sorted_{};
};

/// One entry of `Codes::literals`, from the lowest bit up. One or two literals: 8 bits for the length of their codes
/// together, 8 bits for their number, 16 bits for the literals. Anything else: 7 zeros, a one, 8 zeros, 9 bits for the
/// symbol, 4 bits for the length of its code (0: longer than the table is wide, or no code).
using Entry = std::uint32_t;

inline constexpr Entry other_flag = 0x80;
inline constexpr unsigned end_of_block = 256;

/// The lengths of matches by symbol, from `end_of_block` + 1 on: the shortest, and how many bits are added. Source: RFC
/// 1951, section 3.2.5.
inline constexpr std::array<std::uint16_t, 29> length_base = {
    3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
inline constexpr std::array<std::uint8_t, 29> length_extra = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                                              2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};

/// The codes of a block, as tables.
struct Codes {
    static constexpr unsigned literal_bits = 11; // the tables of all lanes fit into 32 KB of the first cache
    static constexpr unsigned distance_bits = 8;

    std::array<Entry, std::size_t{1} << literal_bits> literals;
    std::array<std::uint16_t, std::size_t{1} << distance_bits>
        distances; ///< 4 bits length (0: see `far`), then the symbol.
    Canonical long_literals, far;
    double literal_share = 0; ///< The share of literals among all symbols, as the lengths of the codes imply.

    /// Reads the codes of a block, behind its first three bits, makes the tables, and moves `at` behind them. False if
    /// the codes are unsound or incomplete. With `quick`, makes no tables.
    [[nodiscard]] bool read(Bytes data, std::uint64_t& at, bool quick = false) noexcept;

    /// Uses the fixed codes of the format.
    void fix() noexcept;

    [[nodiscard]] Symbol distance(std::uint64_t bits) const noexcept {
        const unsigned entry = distances[bits & (distances.size() - 1)];
        return (entry & 15) != 0 ? Symbol{entry >> 4, entry & 15} : far.find(bits);
    }

  private:
    void make_literals(const std::uint8_t* lengths, unsigned count) noexcept;
    void make_distances(const std::uint8_t* lengths, unsigned count) noexcept;
};

/// The first bit from `from` on, before `until`, where a block may begin that has its own codes and is not the last one
/// of its stream; `until` if there is none.
[[nodiscard]] std::uint64_t find_block(Bytes data, std::uint64_t from, std::uint64_t until, Codes& room) noexcept;

} // namespace headrace::deflate
