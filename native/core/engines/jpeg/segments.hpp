#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/base/cursor.hpp"

namespace headrace::jpeg {

/// The second byte of a marker (ITU T.81, table B.1).
enum Marker : unsigned {
    temporary = 0x01,
    start_of_frame = 0xC0,
    start_of_extended = 0xC1,
    start_of_progressive = 0xC2,
    huffman = 0xC4,
    last_frame = 0xCF,
    first_restart = 0xD0,
    last_restart = 0xD7,
    start = 0xD8,
    end_of_image = 0xD9,
    start_of_scan = 0xDA,
    quantization = 0xDB,
    restart_interval = 0xDD,
    application_0 = 0xE0,
    application_14 = 0xEE,
    application_15 = 0xEF,
    comment = 0xFE,
};

/// The number of codes of each length, and their symbols (ITU T.81, B.2.4.2).
struct Codes {
    std::array<std::uint8_t, 16> counts{};
    std::array<std::uint8_t, 256> symbols{};
    bool operator==(const Codes&) const = default;
};

/// The next byte.
[[nodiscard]] inline unsigned byte(Cursor& at) { return at.le<std::uint8_t>(); }

/// The next two bytes, the high one first.
[[nodiscard]] inline unsigned pair(Cursor& at) {
    const unsigned high = byte(at);
    return high << 8 | byte(at);
}

/// Reads counts and symbols, behind the number of their table. Nothing where they are more than their lengths hold, or
/// a symbol has bits of `mask` beyond `most`.
[[nodiscard]] std::optional<Codes> take_codes(Cursor& at, unsigned mask, unsigned most);

} // namespace headrace::jpeg
