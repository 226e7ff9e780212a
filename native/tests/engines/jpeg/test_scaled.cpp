#include "core/engines/jpeg/scaled.hpp"

#include <array>
#include <cstdlib>
#include <random>

#include "check.hpp"

using namespace headrace::jpeg;
using namespace headrace::testing;

namespace {

/// Each sample must be the mean of those of the whole transform, up to rounding.
void samples_are_means() {
    std::mt19937 random(1);
    for (int round = 0; round < 3000; ++round) {
        alignas(32) std::array<std::int16_t, 64> coefficients{};
        alignas(32) std::array<std::uint16_t, 64> steps;
        steps.fill(static_cast<std::uint16_t>(1 + round % 3));
        for (auto& each : coefficients) each = static_cast<std::int16_t>(static_cast<int>(random() % 31) - 15);
        std::array<std::uint8_t, 64> whole{};
        const Block block{coefficients.data(), steps.data(), whole.data(), 8};
        plain_kernels().transform(block, block);
        for (const std::size_t side : {std::size_t{4}, std::size_t{2}, std::size_t{1}}) {
            std::array<std::uint8_t, 64> small{};
            transform_scaled({coefficients.data(), steps.data(), small.data(), 8}, side);
            const std::size_t each = 8 / side;
            for (std::size_t y = 0; y < side; ++y) {
                for (std::size_t x = 0; x < side; ++x) {
                    std::size_t sum = 0;
                    bool is_cut = false;
                    for (std::size_t i = 0; i < each * each; ++i) {
                        const std::uint8_t sample = whole[(y * each + i / each) * 8 + x * each + i % each];
                        is_cut = is_cut || sample == 0 || sample == 255;
                        sum += sample;
                    }
                    if (is_cut) continue;
                    const double mean = static_cast<double>(sum) / static_cast<double>(each * each);
                    check(std::abs(small[y * 8 + x] - mean) < 1.1, "mean");
                }
            }
        }
    }
}

/// A block with only a mean must equal the result of the transform, also for forged numbers.
void flat_blocks_match_the_transform() {
    for (int mean = -32768; mean <= 32767; ++mean) {
        alignas(32) std::array<std::int16_t, 64> coefficients{};
        alignas(32) std::array<std::uint16_t, 64> steps;
        steps.fill(1);
        coefficients[0] = static_cast<std::int16_t>(mean);
        for (const std::size_t side : {std::size_t{4}, std::size_t{2}, std::size_t{1}}) {
            std::array<std::uint8_t, 64> a{}, b{};
            transform_scaled({coefficients.data(), steps.data(), a.data(), 8}, side);
            flat_scaled({coefficients.data(), steps.data(), b.data(), 8}, side);
            check(a == b, "flat");
        }
    }
}

} // namespace

int main() {
    samples_are_means();
    flat_blocks_match_the_transform();
}
