#include "core/pixels/layout.hpp"

#include <cstring>

namespace headrace::pixels {
namespace {

/// Calls `put(sample, channel, place)` for every sample, in the order in which they are written.
template <typename Put>
void each(const std::uint8_t* pixels, std::size_t count, std::size_t channels, bool is_planar, Put&& put) {
    if (is_planar) {
        for (std::size_t channel = 0; channel < channels; ++channel) {
            for (std::size_t i = 0; i < count; ++i) put(pixels[i * channels + channel], channel, channel * count + i);
        }
        return;
    }
    for (std::size_t i = 0; i < count * channels; i += channels) {
        for (std::size_t channel = 0; channel < channels; ++channel) put(pixels[i + channel], channel, i + channel);
    }
}

} // namespace

void Layout::write(const std::uint8_t* pixels, Size size, std::size_t channels, std::uint8_t* out) const noexcept {
    const std::size_t count = size.height * size.width;
    if (values.empty()) {
        return each(pixels, count, channels, is_planar,
                    [&](std::uint8_t sample, std::size_t, std::size_t place) { out[place] = sample; });
    }
    each(pixels, count, channels, is_planar, [&](std::uint8_t sample, std::size_t channel, std::size_t place) {
        std::memcpy(out + place * sizeof(float), &values[channel][sample], sizeof(float));
    });
}

} // namespace headrace::pixels
