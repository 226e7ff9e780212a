#include "core/text/utf8.hpp"

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

std::string encoded(std::uint32_t code) {
    std::string out;
    const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
    if (code < 0x80) {
        put(code);
    } else if (code < 0x800) {
        put(0xC0 | code >> 6), put(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
    } else {
        put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 0x3F)), put(0x80 | (code >> 6 & 0x3F));
        put(0x80 | (code & 0x3F));
    }
    return out;
}

/// Decodes by the definition, and refuses any form but the shortest one of a scalar value.
bool is_plainly_utf8(std::string_view text) {
    for (std::size_t i = 0; i < text.size();) {
        const auto byte = [&](std::size_t k) {
            return static_cast<std::uint32_t>(static_cast<unsigned char>(text[k]));
        };
        const std::uint32_t first = byte(i);
        const std::size_t size = first < 0x80       ? 1
                                 : first >> 5 == 6  ? 2
                                 : first >> 4 == 14 ? 3
                                 : first >> 3 == 30 ? 4
                                                    : 0;
        if (size == 0 || text.size() - i < size) return false;
        std::uint32_t code = size == 1 ? first : first & (0x7FU >> size);
        for (std::size_t k = 1; k < size; ++k) {
            if (byte(i + k) >> 6 != 2) return false;
            code = code << 6 | (byte(i + k) & 0x3F);
        }
        if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000) || encoded(code) != text.substr(i, size)) return false;
        i += size;
    }
    return true;
}

/// Whether bytes are UTF-8, alone and across the border of two vectors.
bool both_say(Bytes bytes) {
    const bool plainly = is_utf8(bytes, Cpu{});
    std::string text(30, 'a');
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    check(is_utf8(bytes) == plainly && is_utf8(bytes_of(text)) == plainly);
    return plainly;
}

void test_long_texts() {
    std::uint32_t random = 1;
    const auto next = [&](std::uint32_t below) { return (random = random * 1664525 + 1013904223) / 65536 % below; };
    for (int round = 0; round < 20000; ++round) {
        std::string text;
        for (std::uint32_t k = next(60); k != 0; --k)
            text += next(2) == 0 ? encoded(next(0x80)) : encoded(0x80 + next(0xD000));
        if (next(2) == 0 && !text.empty())
            text[next(static_cast<std::uint32_t>(text.size()))] ^= static_cast<char>(1 << next(8));
        const Bytes bytes = bytes_of(text);
        check(is_utf8(bytes) == is_plainly_utf8(text) && is_utf8(bytes, Cpu{}) == is_plainly_utf8(text));
    }
}

void test_every_character() {
    for (std::uint32_t code = 0; code < 0x110000; ++code) {
        const bool surrogate = code >= 0xD800 && code < 0xE000;
        check(both_say(bytes_of(encoded(code))) == !surrogate);
    }
    check(!both_say(bytes_of(encoded(0x110000))));
}

// Every pair of bytes followed by two significant ones, alone and after ASCII of several lengths.
void test_every_pair_of_bytes() {
    const std::string tails = "\x20\x80\xbf\xc0";
    for (int first = 0; first < 256; ++first)
        for (int second = 0; second < 256; ++second)
            for (const char third : tails)
                for (const char fourth : tails) {
                    const std::string text{static_cast<char>(first), static_cast<char>(second), third, fourth};
                    for (std::size_t size = 1; size <= 4; ++size)
                        check(both_say(bytes_of(text).first(size)) == is_plainly_utf8(text.substr(0, size)));
                }
}

void test_every_position_of_a_character() {
    const std::string euro = encoded(0x20AC);
    for (std::size_t before = 0; before < 150; ++before)
        for (std::size_t after = 0; after < 20; ++after) {
            std::string text(before, 'a');
            check(is_ascii(bytes_of(text)) && is_utf8(bytes_of(text)));
            text += euro + std::string(after, 'z');
            check(!is_ascii(bytes_of(text)) && is_utf8(bytes_of(text)));
            text[before + 2] = 'x';
            check(!both_say(bytes_of(text)));
        }
}

} // namespace

int main() {
    test_long_texts();
    test_every_character();
    test_every_pair_of_bytes();
    test_every_position_of_a_character();
}
