#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "core/pixels/resize.hpp"

namespace headrace::pixels {

/// What to do with an image: cut out a random part, or shrink it and cut out its middle, and mirror it or not.
struct Geometry {
    /// The part has an area of `scale` times that of the image and a width of `ratio` times its height, both drawn, and
    /// becomes `size`.
    struct RandomCrop {
        Size size;
        std::array<double, 2> scale;
        std::array<double, 2> ratio;
    };

    std::optional<RandomCrop> crop;
    std::optional<Size> resize;         ///< To this size,
    std::optional<std::size_t> shorter; ///< or until the shorter side has this length.
    std::optional<Size> centre;         ///< Then cut out the middle.
    bool may_flip = false;              ///< Mirrored with a chance of one half.

    /// Random numbers that a view is made from: one for the flip, and four for each of ten tries to find a part.
    static constexpr std::size_t most_draws = 41;

    /// How many of them are needed.
    [[nodiscard]] std::size_t draws() const noexcept {
        if (crop) return most_draws;
        return may_flip ? 1 : 0;
    }

    /// What becomes of an image of this size, which is not empty. Nothing if it is smaller than the middle that is to
    /// be cut out. `draws` are at least 0 and below 1.
    [[nodiscard]] std::optional<View> view(Size image, const double* draws) const;
};

} // namespace headrace::pixels
