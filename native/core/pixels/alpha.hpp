#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pixels/resize.hpp"

namespace headrace::pixels {

/// Whether the last of the channels is alpha: those of grey and alpha, and of colours and alpha.
[[nodiscard]] constexpr bool has_alpha(std::size_t channels) noexcept { return channels == 2 || channels == 4; }

/// Multiplies colours by alpha, as Pillow does before it resizes: what is transparent must not shine through.
/// `channels` have alpha; `out` gets height * width * channels samples.
void multiply_by_alpha(const Pixels& from, Size size, std::size_t channels, std::uint8_t* out) noexcept;

/// Divides the colours of `count` pixels by alpha, with Pillow's rounding. Where alpha is 0, they stay.
void divide_by_alpha(std::uint8_t* pixels, std::size_t count, std::size_t channels) noexcept;

} // namespace headrace::pixels
