#include "core/pixels/geometry.hpp"

#include <algorithm>
#include <cmath>

namespace headrace::pixels {
namespace {

/// The nearest integer, halves to even, as Python rounds.
std::size_t rounded(double value) { return static_cast<std::size_t>(std::max(std::nearbyint(value), 0.0)); }

/// An integer from 0 up to `most`.
std::size_t up_to(std::size_t most, double draw) {
    return std::min(static_cast<std::size_t>(draw * static_cast<double>(most + 1)), most);
}

Box middle(Size image, std::size_t height, std::size_t width) {
    return {(image.height - height) / 2, (image.width - width) / 2, height, width};
}

/// The random part, as torchvision's RandomResizedCrop draws it.
Box random_box(Size image, const Geometry::RandomCrop& crop, const double* draws) {
    const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
    const double lowest = std::log(crop.ratio[0]), highest = std::log(crop.ratio[1]);
    for (const double* draw = draws + 1; draw != draws + Geometry::most_draws; draw += 4) {
        const double area = width * height * (crop.scale[0] + (crop.scale[1] - crop.scale[0]) * draw[0]);
        const double ratio = std::exp(lowest + (highest - lowest) * draw[1]);
        const double wide = std::sqrt(area * ratio), high = std::sqrt(area / ratio);
        if (!(wide <= width + 1 && high <= height + 1)) continue;
        const std::size_t columns = rounded(wide), rows = rounded(high);
        if (columns == 0 || rows == 0 || columns > image.width || rows > image.height) continue;
        return {up_to(image.height - rows, draw[2]), up_to(image.width - columns, draw[3]), rows, columns};
    }
    const double found = width / height;
    if (found < crop.ratio[0]) {
        return middle(image, std::clamp(rounded(width / crop.ratio[0]), std::size_t{1}, image.height), image.width);
    }
    if (found > crop.ratio[1]) {
        return middle(image, image.height, std::clamp(rounded(height * crop.ratio[1]), std::size_t{1}, image.width));
    }
    return {0, 0, image.height, image.width};
}

/// The size whose shorter side has a length; the longer one is rounded down.
Size with_shorter(Size image, std::size_t length) {
    const std::size_t least = std::min(image.height, image.width);
    const auto scaled = [&](std::size_t side) { return std::max<std::size_t>(1, side * length / least); };
    return {scaled(image.height), scaled(image.width)};
}

} // namespace

std::optional<View> Geometry::view(Size image, const double* draws) const {
    View view;
    view.box = {0, 0, image.height, image.width};
    view.size = image;
    if (crop) {
        view.box = random_box(image, *crop, draws);
        view.size = crop->size;
    } else if (resize) {
        view.size = *resize;
    } else if (shorter) {
        view.size = with_shorter(image, *shorter);
    }
    view.window = {0, 0, view.size.height, view.size.width};
    if (centre) {
        if (centre->height > view.size.height || centre->width > view.size.width) return std::nullopt;
        // torchvision rounds the halves to the even number.
        view.window = {rounded(static_cast<double>(view.size.height - centre->height) / 2),
                       rounded(static_cast<double>(view.size.width - centre->width) / 2), centre->height,
                       centre->width};
    }
    view.is_flipped = may_flip && draws[0] < 0.5;
    return view;
}

} // namespace headrace::pixels
