#include "core/pixels/alpha.hpp"

#include <algorithm>

namespace headrace::pixels {
namespace {

/// colour * alpha / 255, rounded.
std::uint8_t product(unsigned colour, unsigned alpha) noexcept {
    const unsigned both = colour * alpha + 128;
    return static_cast<std::uint8_t>(((both >> 8) + both) >> 8);
}

/// The number of channels is known here, so that the compiler works on many pixels at once.
template <std::size_t channels>
void multiply_row(const std::uint8_t* from, std::size_t width, std::uint8_t* out) noexcept {
    for (std::size_t i = 0; i < width * channels; i += channels) {
        const unsigned alpha = from[i + channels - 1];
        for (std::size_t channel = 0; channel + 1 < channels; ++channel) {
            out[i + channel] = product(from[i + channel], alpha);
        }
        out[i + channels - 1] = static_cast<std::uint8_t>(alpha);
    }
}

} // namespace

void multiply_by_alpha(const Pixels& from, Size size, std::size_t channels, std::uint8_t* out) noexcept {
    for (std::size_t row = 0; row < size.height; ++row, out += size.width * channels) {
        const std::uint8_t* const at = from.data + row * from.stride;
        channels == 2 ? multiply_row<2>(at, size.width, out) : multiply_row<4>(at, size.width, out);
    }
}

void divide_by_alpha(std::uint8_t* pixels, std::size_t count, std::size_t channels) noexcept {
    for (std::uint8_t* const end = pixels + count * channels; pixels != end; pixels += channels) {
        const unsigned alpha = pixels[channels - 1];
        if (alpha == 0 || alpha == 255) continue;
        for (std::size_t channel = 0; channel + 1 < channels; ++channel) {
            pixels[channel] = static_cast<std::uint8_t>(std::min(255 * unsigned{pixels[channel]} / alpha, 255U));
        }
    }
}

} // namespace headrace::pixels
