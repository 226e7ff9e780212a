#pragma once

#include <array>

#include "core/base/cursor.hpp"

namespace headrace {

/// Decompresses zlib streams (RFC 1950 and 1951) whose size is known before. One of these does many streams, one after
/// the other.
///
/// Made for streams of a few hundred bytes, as images of 28 x 28 are: there is nothing to set up, nothing is allocated,
/// and what is decompressed goes straight to its place, which also is the window.
class Inflater {
  public:
    /// Fills `out`. Bytes behind the stream are passed over, as zlib does.
    ///
    /// Throws FormatError{truncated} when the stream ends early, {wrong_count} when it holds more or fewer bytes than
    /// `out`, {payload_checksum} when they are others than were compressed, {structure} for everything that deflate
    /// does not allow.
    void inflate(Bytes stream, std::span<std::byte> out);

  private:
    class Bits;
    static constexpr unsigned most_bits = 15;

    /// A canonical prefix code. Codes of up to `direct_bits` are looked up, longer ones (which are rare, or they would
    /// be shorter) counted through.
    template <unsigned DirectBits, std::size_t Symbols> struct Code {
        std::array<std::uint16_t, std::size_t{1} << DirectBits>
            direct;                                 ///< symbol << 4 | bits; 0 where it takes more bits, or none has it.
        std::array<std::uint16_t, Symbols> symbols; ///< In the order of their codes.
        std::array<std::uint16_t, most_bits + 1> count; ///< How many codes have so many bits.

        /// `may_be_partial`: a single code of one bit is allowed to leave the other one to nobody.
        void make(std::span<const std::uint8_t> lengths, bool may_be_partial);
        [[nodiscard]] unsigned next(Bits& bits) const;
        [[nodiscard]] unsigned counted(Bits& bits) const;
    };

    static void copy_stored(Bits& bits, std::span<std::byte> out, std::size_t& done);
    void read_codes(Bits& bits);
    void fixed_codes();
    void inflate_block(Bits& bits, std::span<std::byte> out, std::size_t& done) const;

    Code<7, 19> lengths_;
    Code<10, 288> values_;
    Code<8, 32> distances_;
};

/// Adler-32 of RFC 1950.
[[nodiscard]] std::uint32_t adler32(Bytes bytes) noexcept;

} // namespace headrace
