#include "core/pixels/layout.hpp"

#include <cstring>

#include "check.hpp"

using namespace headrace::pixels;
using namespace headrace::testing;

int main() {
    const std::vector<std::uint8_t> pixels = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const Size size{2, 2};
    Layout layout;
    std::vector<std::uint8_t> out(12);
    check(layout.sample_size() == 1);
    layout.write(pixels.data(), size, 3, out.data());
    check(out == pixels);
    layout.is_planar = true;
    layout.write(pixels.data(), size, 3, out.data());
    check(out == std::vector<std::uint8_t>{1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12});

    layout.values.resize(3);
    for (std::size_t channel = 0; channel < 3; ++channel) {
        for (std::size_t i = 0; i < 256; ++i) {
            layout.values[channel][i] = static_cast<float>(i) + static_cast<float>(channel) / 4;
        }
    }
    check(layout.sample_size() == 4);
    std::vector<float> floats(12);
    auto* const bytes = reinterpret_cast<std::uint8_t*>(floats.data());
    layout.write(pixels.data(), size, 3, bytes);
    check(floats == std::vector<float>{1, 4, 7, 10, 2.25, 5.25, 8.25, 11.25, 3.5, 6.5, 9.5, 12.5});
    layout.is_planar = false;
    layout.write(pixels.data(), size, 3, bytes);
    check(floats == std::vector<float>{1, 2.25, 3.5, 4, 5.25, 6.5, 7, 8.25, 9.5, 10, 11.25, 12.5});
}
