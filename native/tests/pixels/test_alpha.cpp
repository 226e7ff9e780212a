#include "core/pixels/alpha.hpp"

#include <algorithm>
#include <vector>

#include "check.hpp"

using namespace headrace::pixels;
using namespace headrace::testing;

namespace {

using Samples = std::vector<std::uint8_t>;

/// Every colour with every alpha.
void test_all_values(std::size_t channels) {
    const Size size{256, 256};
    Samples image, products;
    for (unsigned alpha = 0; alpha < 256; ++alpha) {
        for (unsigned colour = 0; colour < 256; ++colour) {
            for (std::size_t channel = 0; channel + 1 < channels; ++channel) {
                image.push_back(static_cast<std::uint8_t>(colour));
                products.push_back(static_cast<std::uint8_t>((2 * colour * alpha + 255) / 510)); // rounded
            }
            image.push_back(static_cast<std::uint8_t>(alpha));
            products.push_back(static_cast<std::uint8_t>(alpha));
        }
    }
    Samples found(image.size());
    multiply_by_alpha({image.data(), 256 * channels}, size, channels, found.data());
    check(found == products);
    divide_by_alpha(found.data(), std::size_t{256} * 256, channels);
    for (std::size_t i = 0; i < found.size(); i += channels) {
        const unsigned alpha = image[i + channels - 1], product = products[i], colour = found[i];
        if (alpha == 0 || alpha == 255) check(colour == product);
        else check(colour == std::min(255 * product / alpha, 255U));
        check(found[i + channels - 1] == alpha);
    }
}

void test_rows_of_a_larger_image() {
    const Samples image{200, 255, 9, 9, 100, 51, 9, 9};
    Samples found(4);
    multiply_by_alpha({image.data(), 4}, {2, 1}, 2, found.data());
    check(found == Samples{200, 255, 20, 51});
}

void test_sums_may_exceed_their_alpha() {
    Samples pixels{200, 100, 7, 0}; // as with filters that have negative weights
    divide_by_alpha(pixels.data(), 2, 2);
    check(pixels == Samples{255, 100, 7, 0});
}

} // namespace

int main() {
    check(!has_alpha(1) && has_alpha(2) && !has_alpha(3) && has_alpha(4));
    test_all_values(2);
    test_all_values(4);
    test_rows_of_a_larger_image();
    test_sums_may_exceed_their_alpha();
}
