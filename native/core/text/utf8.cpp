#include "core/text/utf8.hpp"

namespace headrace {
namespace {

constexpr std::uint64_t high_bits = 0x8080808080808080;
constexpr std::size_t block = 64;

unsigned at(Bytes bytes, std::size_t i) noexcept { return std::to_integer<unsigned>(bytes[i]); }

bool is_between(unsigned byte, unsigned low, unsigned high) noexcept { return byte - low <= high - low; }

/// The size of the character that begins at `i` with a byte of 0x80 or more, or 0 if it is not valid.
std::size_t character_at(Bytes bytes, std::size_t i) noexcept {
    const std::size_t left = bytes.size() - i;
    const unsigned first = at(bytes, i);
    if (is_between(first, 0xC2, 0xDF)) return left >= 2 && is_between(at(bytes, i + 1), 0x80, 0xBF) ? 2 : 0;
    if (is_between(first, 0xE0, 0xEF)) {
        if (left < 3) return 0;
        // 0xE0 would begin an overlong form, 0xED a surrogate.
        const unsigned low = first == 0xE0 ? 0xA0 : 0x80, high = first == 0xED ? 0x9F : 0xBF;
        return is_between(at(bytes, i + 1), low, high) && is_between(at(bytes, i + 2), 0x80, 0xBF) ? 3 : 0;
    }
    if (!is_between(first, 0xF0, 0xF4) || left < 4) return 0;
    // 0xF0 would begin an overlong form, 0xF4 a number above U+10FFFF.
    const unsigned low = first == 0xF0 ? 0x90 : 0x80, high = first == 0xF4 ? 0x8F : 0xBF;
    const bool good = is_between(at(bytes, i + 1), low, high) && is_between(at(bytes, i + 2), 0x80, 0xBF) &&
                      is_between(at(bytes, i + 3), 0x80, 0xBF);
    return good ? 4 : 0;
}

} // namespace

bool is_ascii(Bytes bytes) noexcept {
    std::size_t i = 0;
    for (; bytes.size() - i >= block; i += block) {
        std::uint64_t any = 0;
        for (std::size_t k = 0; k < block; k += sizeof any) any |= load_le<std::uint64_t>(bytes.data() + i + k);
        if ((any & high_bits) != 0) return false;
    }
    std::uint64_t any = 0;
    for (; bytes.size() - i >= sizeof any; i += sizeof any) any |= load_le<std::uint64_t>(bytes.data() + i);
    for (; i < bytes.size(); ++i) any |= at(bytes, i);
    return (any & high_bits) == 0;
}

bool is_utf8(Bytes bytes) noexcept {
    std::size_t i = 0;
    while (i < bytes.size()) {
        if (bytes.size() - i >= sizeof(std::uint64_t)) {
            const std::uint64_t high = load_le<std::uint64_t>(bytes.data() + i) & high_bits;
            i += high == 0 ? sizeof high : static_cast<std::size_t>(std::countr_zero(high)) / 8;
            if (high == 0) continue;
        }
        if (at(bytes, i) < 0x80) {
            ++i;
            continue;
        }
        const std::size_t size = character_at(bytes, i);
        if (size == 0) return false;
        i += size;
    }
    return true;
}

} // namespace headrace
