#include "core/engines/png/packing.hpp"

#include <random>
#include <string>
#include <vector>

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

void greys_go_from_0_to_255() {
    using namespace std::string_view_literals;
    const auto unpack = [](std::string_view rows, std::size_t height, const PngPacking& packing) {
        std::string out(height * packing.width * packing.channels, '?');
        check(unpack_png(bytes_of(rows), height, packing, {}, reinterpret_cast<std::byte*>(out.data())));
        return out;
    };
    check(unpack("\xA0"sv, 1, {3, 1, 1}) == "\xFF\0\xFF"sv);
    check(unpack("\x1B\xC0"sv, 1, {5, 2, 1}) == "\0\x55\xAA\xFF\xFF"sv);
    check(unpack("\x0F\x70\x12\x30"sv, 2, {3, 4, 1}) == "\0\xFF\x77\x11\x22\x33"sv);
    check(unpack(""sv, 0, {3, 1, 1}).empty());
}

/// Every number of bits and channels, and every width around those that are whole bytes, against one pixel at a time.
void colours_are_those_of_the_palette() {
    std::mt19937 random(1);
    for (const unsigned bits : {1U, 2U, 4U, 8U}) {
        for (const std::size_t channels : {3U, 4U}) {
            for (std::size_t width = 1; width < 20; ++width) {
                const std::size_t size = std::size_t{1} << bits, height = 3, row_bytes = (width * bits + 7) / 8;
                std::vector<std::byte> colours(size * 3), alpha(size / 2), rows(height * row_bytes);
                for (auto* each : {&colours, &alpha, &rows})
                    for (std::byte& byte : *each) byte = static_cast<std::byte>(random());
                PngPalette palette;
                check(palette.set_colours(colours, bits) && palette.size() == size && palette.is_complete(3));
                if (channels == 4) check(palette.set_alpha(alpha) && palette.is_complete(4) && !palette.is_complete(3));
                const std::size_t written = height * width * channels;
                std::vector<std::byte> out(written + 4, std::byte{0x5A});
                check(unpack_png(rows, height, {width, bits, channels}, palette, out.data()));
                for (std::size_t i = 0; i < written; ++i) {
                    const std::size_t y = i / channels / width, x = i / channels % width, channel = i % channels;
                    const auto byte = std::to_integer<unsigned>(rows[y * row_bytes + x * bits / 8]);
                    const std::size_t number = byte >> (8 - bits - x * bits % 8) & (size - 1);
                    const std::byte opaque = number < alpha.size() ? alpha[number] : std::byte{255};
                    check(out[i] == (channel == 3 ? opaque : colours[number * 3 + channel]));
                }
                for (std::size_t i = written; i < out.size(); ++i) check(out[i] == std::byte{0x5A}, "behind the end");
            }
        }
    }
}

void unusual_palettes_are_refused() {
    using namespace std::string_view_literals;
    PngPalette palette;
    check(palette.is_complete(1) && !palette.is_complete(3));
    check(!palette.set_alpha(bytes_of("a"sv)), "alpha without colours");
    for (const std::string_view chunk : {""sv, "abcd"sv, "abcdefghi"sv})
        check(!palette.set_colours(bytes_of(chunk), 1));
    check(palette.set_colours(bytes_of("abcdef"sv), 2) && !palette.set_colours(bytes_of("abcdef"sv), 2));
    check(!palette.set_alpha({}) && !palette.set_alpha(bytes_of("abc"sv)));
    check(palette.set_alpha(bytes_of("ab"sv)) && !palette.set_alpha(bytes_of("ab"sv)));
    std::vector<std::byte> out(8);
    check(unpack_png(bytes_of("\x40"sv), 1, {2, 2, 4}, palette, out.data()));
    check(!unpack_png(bytes_of("\x80"sv), 1, {2, 2, 4}, palette, out.data()), "a number beyond the palette");
}

} // namespace

int main() {
    greys_go_from_0_to_255();
    colours_are_those_of_the_palette();
    unusual_palettes_are_refused();
}
