#pragma once

#include <optional>
#include <vector>

#include "core/base/cursor.hpp"

namespace headrace::testing {

/// What a Snappy block decompresses to, found byte by byte; nothing if it is damaged or larger than `most`.
inline std::optional<std::vector<std::byte>> decompress_plainly(Bytes block, std::uint64_t most) {
    std::size_t at = 0;
    bool good = true;
    const auto number = [&](std::size_t bytes) {
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < bytes; ++i) {
            good = good && at < block.size();
            if (good) value |= std::to_integer<std::uint64_t>(block[at++]) << (8 * i);
        }
        return value;
    };
    std::uint64_t size = 0;
    for (unsigned i = 0; i < 5; ++i) {
        const std::uint64_t byte = number(1);
        size |= (byte & 127) << (7 * i);
        if (byte < 128) break;
        if (i == 4) good = false;
    }
    if (!good || size > most || size >> 32 != 0) return std::nullopt;
    std::vector<std::byte> out;
    while (at < block.size()) {
        const std::uint64_t tag = number(1);
        std::uint64_t count = (tag >> 2) + 1, offset = 0;
        switch (tag & 3) {
        case 0:
            if (count > 60) count = number(count - 60) + 1;
            break;
        case 1:
            count = 4 + (tag >> 2 & 7);
            offset = number(1) | tag >> 5 << 8;
            break;
        case 2: offset = number(2); break;
        default: offset = number(4); break;
        }
        if (!good || count > size - out.size()) return std::nullopt;
        if ((tag & 3) == 0) {
            for (; count != 0 && good; --count) out.push_back(static_cast<std::byte>(number(1)));
        } else {
            if (offset == 0 || offset > out.size()) return std::nullopt;
            for (; count != 0; --count) out.push_back(out[out.size() - offset]);
        }
        if (!good) return std::nullopt;
    }
    if (out.size() != size) return std::nullopt;
    return out;
}

} // namespace headrace::testing
