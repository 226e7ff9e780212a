#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/base/cursor.hpp"
#include "core/engines/jpeg/segments.hpp"

namespace headrace::jpeg {

/// One of the planes of an image.
struct Component {
    std::uint8_t id = 0;
    std::uint8_t across = 1; ///< Blocks of a unit in a row: 1 or 2.
    std::uint8_t down = 1;   ///< Blocks of a unit in a column: 1 or 2.
    std::uint8_t steps = 0;  ///< The number of its quantization table.
    std::uint8_t dc = 0;     ///< The number of the codes of its means.
    std::uint8_t ac = 0;     ///< The number of the codes of its other coefficients.
};

/// Which coefficients of which planes a scan holds. A sequential file has one scan of all.
struct Scan {
    std::array<std::uint8_t, 3> planes{}; ///< The numbers of its components, in their order.
    std::size_t count = 0;                ///< The used entries of `planes`.
    unsigned first = 0;                   ///< The first place of the zigzag order.
    unsigned last = 63;                   ///< The last one.
    unsigned high = 0;                    ///< Their lowest bit so far, or 0 where they have none yet.
    unsigned low = 0;                     ///< Their lowest bit after this scan.
    std::size_t begin = 0;                ///< Where its bytes begin in the file.
};

/// Everything before the coefficients of a plain JPEG.
struct Header {
    std::uint32_t height = 0;
    std::uint32_t width = 0;
    std::uint32_t channels = 0; ///< 1 (grey) or 3 (YCbCr), the used entries of `components`.
    std::array<Component, 3> components{};
    std::array<std::array<std::uint16_t, 64>, 4> steps{}; ///< In rows, not in zigzag.
    std::array<std::optional<Codes>, 4> dc{};
    std::array<std::optional<Codes>, 4> ac{};
    std::uint32_t restart = 0;   ///< Units between restart markers, or 0.
    bool is_progressive = false; ///< Further scans follow the first one; see `next_scan`.
    Scan scan;                   ///< The scan that begins behind these segments.
};

/// Added to the place of the last coefficient at the end of a block.
inline constexpr std::size_t beyond = 128;

/// The place of coefficient `k` of the zigzag in a block (ITU T.81, figure 5). Past the 64, as far as two steps of an
/// entry reach, it is a place behind the block.
extern const std::array<std::uint8_t, 64 + 2 * 16 + beyond> zigzag;

/// The header of a plain JPEG, as most data sets have them: sequential with all planes in one scan, or progressive;
/// Huffman codes, 8 bits, grey or YCbCr with chroma of full size, half the width, or half the width and height. Nothing
/// for every other file, and for one with any fault: a library judges those. Never throws, and reads nothing beyond
/// `file`.
[[nodiscard]] std::optional<Header> plain_header(Bytes file) noexcept;

enum class Next : std::uint8_t { scan, end, fault };

/// Reads the segments of a progressive file from `at` on, behind a scan, up to the next scan or the end of the image.
/// `header` gets what they say.
[[nodiscard]] Next next_scan(Bytes file, std::size_t at, Header& header) noexcept;

} // namespace headrace::jpeg
