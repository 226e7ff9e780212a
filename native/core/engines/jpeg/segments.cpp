#include "core/engines/jpeg/segments.hpp"

namespace headrace::jpeg {

std::optional<Codes> take_codes(Cursor& at, unsigned mask, unsigned most) {
    Codes read;
    std::size_t total = 0;
    unsigned next = 0;   // the next code of this length
    unsigned behind = 2; // the first number that is too long for it
    for (std::uint8_t& count : read.counts) {
        count = static_cast<std::uint8_t>(byte(at));
        total += count;
        next = next * 2 + count;
        if (next > behind) return std::nullopt;
        behind *= 2;
    }
    if (total > read.symbols.size()) return std::nullopt;
    for (std::size_t i = 0; i < total; ++i) {
        read.symbols[i] = static_cast<std::uint8_t>(byte(at));
        if ((read.symbols[i] & mask) > most) return std::nullopt;
    }
    return read;
}

} // namespace headrace::jpeg
