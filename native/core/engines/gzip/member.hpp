#pragma once

#include <array>

#include "core/base/cursor.hpp"

namespace headrace {

/// Decompresses zlib streams (RFC 1950 and 1951) of known size, any number of them.
///
/// Made for streams of a few hundred bytes, such as images of 28 x 28: it needs no set-up, allocates nothing, and
/// writes straight to the output, which is also the window.
class Inflater {
  public:
    /// Fills `out`. Ignores bytes behind the stream, as zlib does.
    ///
    /// Throws FormatError{truncated} if the stream ends early, {wrong_count} if it holds more or fewer bytes than
    /// `out`, {payload_checksum} if their checksum is wrong, {structure} for everything that deflate does not allow.
    void inflate(Bytes stream, std::span<std::byte> out);

  private:
    class Bits;
    static constexpr unsigned most_bits = 15;

    /// A canonical prefix code. Codes of up to `DirectBits` are looked up; longer ones, which are rare, are searched by
    /// length.
    template <unsigned DirectBits, std::size_t Symbols> struct Code {
        std::array<std::uint16_t, std::size_t{1} << DirectBits>
            direct;                                     ///< symbol << 4 | bits; 0 for a longer code, or none.
        std::array<std::uint16_t, Symbols> symbols;     ///< In the order of their codes.
        std::array<std::uint16_t, most_bits + 1> count; ///< Number of codes of each length in bits.

        /// `may_be_partial` allows a single code of one bit, with the other one unused.
        void make(std::span<const std::uint8_t> lengths, bool may_be_partial);
        [[nodiscard]] unsigned next(Bits& bits) const;
        [[nodiscard]] unsigned search(Bits& bits) const;
    };

    static void copy_stored(Bits& bits, std::span<std::byte> out, std::size_t& done);
    void read_codes(Bits& bits);
    void use_fixed_codes();
    void inflate_block(Bits& bits, std::span<std::byte> out, std::size_t& done) const;

    Code<7, 19> lengths_;
    Code<10, 288> values_;
    Code<8, 32> distances_;
};

/// Adler-32 of RFC 1950.
[[nodiscard]] std::uint32_t adler32(Bytes bytes) noexcept;

} // namespace headrace
