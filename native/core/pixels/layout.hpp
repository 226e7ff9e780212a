#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/pixels/resize.hpp"

namespace headrace::pixels {

/// How the pixels of an image stand in a batch.
struct Layout {
    bool is_planar = false; ///< Channel by channel, instead of pixel by pixel.
    /// What becomes of each sample of each channel, if numbers of 32 bits are wanted; else empty.
    std::vector<std::array<float, 256>> values;

    [[nodiscard]] std::size_t sample_size() const noexcept { return values.empty() ? 1 : sizeof(float); }

    /// Lays out height * width * channels samples, which are pixel by pixel. `values` are empty or one for each
    /// channel.
    void write(const std::uint8_t* pixels, Size size, std::size_t channels, std::uint8_t* out) const noexcept;
};

} // namespace headrace::pixels
