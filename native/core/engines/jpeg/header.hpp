#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/base/cursor.hpp"

namespace headrace::jpeg {

/// How many codes there are of each length, and what they stand for (ITU T.81, B.2.4.2).
struct Codes {
    std::array<std::uint8_t, 16> counts{};
    std::array<std::uint8_t, 256> symbols{};
    bool operator==(const Codes&) const = default;
};

/// One of the planes of an image.
struct Component {
    std::uint8_t id = 0;
    std::uint8_t across = 1; ///< Blocks of a unit side by side: 1 or 2.
    std::uint8_t down = 1;   ///< Blocks of a unit one below the other: 1 or 2.
    std::uint8_t steps = 0;  ///< Which table its coefficients were divided by.
    std::uint8_t dc = 0;     ///< Which codes its means have.
    std::uint8_t ac = 0;     ///< Which codes its other coefficients have.
};

/// What stands before the coefficients of a plain JPEG.
struct Header {
    std::uint32_t height = 0;
    std::uint32_t width = 0;
    std::uint32_t channels = 0; ///< 1 (grey) or 3 (YCbCr); so many of `components` count.
    std::array<Component, 3> components{};
    std::array<std::array<std::uint16_t, 64>, 4> steps{}; ///< In rows, not in zigzag.
    std::array<std::optional<Codes>, 4> dc{};
    std::array<std::optional<Codes>, 4> ac{};
    std::uint32_t restart = 0; ///< Units between restart markers, or 0.
    std::size_t scan = 0;      ///< Where the coefficients begin.
};

/// What the end of a block adds to the place of its last coefficient.
inline constexpr std::size_t beyond = 128;

/// Where coefficient `k` of the zigzag stands in a block (ITU T.81, figure 5). Beyond the 64, as far as two steps of an
/// entry lead: a place behind the block.
extern const std::array<std::uint8_t, 64 + 2 * 16 + beyond> zigzag;

/// The header of the JPEGs that data sets are made of: sequential, Huffman codes, 8 bits, all planes in one scan, grey
/// or YCbCr with chroma of full size, of half the width, or of half the width and height. Nothing for every other one,
/// and for one in which anything at all is out of order: those are for a whole library to judge. Never throws, reads
/// nothing beyond `file`.
[[nodiscard]] std::optional<Header> plain_header(Bytes file) noexcept;

} // namespace headrace::jpeg
