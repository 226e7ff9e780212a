#include "core/pixels/resize.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/cpus.hpp"
#include "check.hpp"

using namespace headrace;
using namespace headrace::pixels;
using namespace headrace::testing;

namespace {

using Samples = std::vector<std::uint8_t>;

Samples random_samples(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    Samples out(count);
    for (auto& sample : out) sample = static_cast<std::uint8_t>(seed % 3 == 0 ? random() % 2 * 255 : random());
    return out;
}

/// Both kinds of kernels must give identical results for any weights and sizes.
void kernels_agree(const ResizeKernels& plain, const ResizeKernels& vector) {
    std::mt19937 random(1);
    for (std::size_t columns = 1; columns < 140; ++columns) {
        const std::size_t count = 1 + random() % 9;
        const Samples rows = random_samples(count * 150, static_cast<unsigned>(columns));
        Taps taps;
        const auto filter = static_cast<Filter>(random() % 5);
        taps.fill(count, 0, static_cast<double>(count), 1 + random() % 3, 0, 1, filter);
        const Taps::Sample& sample = taps.samples[0];
        Samples a(columns + 1, 7), b(columns + 1, 7);
        plain.weigh(rows.data(), 150, taps.pairs.data() + sample.pairs, sample.count, columns, a.data());
        vector.weigh(rows.data(), 150, taps.pairs.data() + sample.pairs, sample.count, columns, b.data());
        check(a == b && a.back() == 7, "weigh");
        for (const std::size_t height : {std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{32}, columns}) {
            const Samples from = random_samples(height * 150, static_cast<unsigned>(columns));
            Samples c(columns * height + 1, 7), d(columns * height + 1, 7);
            plain.transpose(from.data(), 150, height, columns, c.data(), height);
            vector.transpose(from.data(), 150, height, columns, d.data(), height);
            check(c == d && c.back() == 7, "transpose");
            check(c[(columns - 1) * height] == from[columns - 1], "transpose");
        }
    }
}

Samples resized(const ResizeKernels& kernels, const Samples& image, Size size, std::size_t channels, const View& view,
                Filter filter) {
    Resizer resizer(kernels);
    Samples out(view.window.height * view.window.width * channels);
    for (int turn = 0; turn < 2; ++turn) { // a resizer is used again
        resizer.plan(view, size, filter);
        const Box& needed = resizer.needed();
        check(needed.top + needed.height <= size.height && needed.left + needed.width <= size.width);
        const std::size_t stride = size.width * channels;
        resizer.run({image.data() + needed.top * stride + needed.left * channels, stride}, channels, out.data());
        resizer.shrink();
    }
    return out;
}

double weight(Filter filter, double x) {
    x = std::abs(x);
    if (filter == Filter::bilinear) return std::max(0.0, 1 - x);
    if (filter == Filter::bicubic) {
        if (x < 1) return 1.5 * x * x * x - 2.5 * x * x + 1;
        return x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2 : 0;
    }
    return 0;
}

/// One sample by the definition, in floating point, without rounding between rows and columns.
double defined(const Samples& image, Size size, const View& view, Filter filter, std::size_t y, std::size_t x) {
    double sum = 0, total = 0;
    const double down = static_cast<double>(view.box.height) / static_cast<double>(view.size.height);
    const double across = static_cast<double>(view.box.width) / static_cast<double>(view.size.width);
    for (std::size_t i = 0; i < view.box.height; ++i) {
        for (std::size_t j = 0; j < view.box.width; ++j) {
            const double dy =
                (static_cast<double>(i) + 0.5 - (static_cast<double>(y) + 0.5) * down) / std::max(down, 1.0);
            const double dx =
                (static_cast<double>(j) + 0.5 - (static_cast<double>(x) + 0.5) * across) / std::max(across, 1.0);
            const double share = weight(filter, dy) * weight(filter, dx);
            sum += share * image[(view.box.top + i) * size.width + view.box.left + j];
            total += share;
        }
    }
    return std::clamp(sum / total, 0.0, 255.0);
}

void results_match_the_definition(const ResizeKernels& kernels) {
    const Size size{41, 53};
    const Samples image = random_samples(41 * 53, 1);
    for (const Filter filter : {Filter::bilinear, Filter::bicubic}) {
        for (const Size to : {Size{41, 20}, Size{7, 53}, Size{60, 80}, Size{1, 1}, Size{13, 19}}) {
            const View view{{3, 5, 37, 44}, to, {0, 0, to.height, to.width}};
            const Samples found = resized(kernels, image, size, 1, view, filter);
            for (std::size_t y = 0; y < to.height; ++y) {
                for (std::size_t x = 0; x < to.width; ++x) {
                    // Rows are rounded, and cut off at 0 and 255, before columns are made from them.
                    const double allowed = filter == Filter::bicubic ? 40 : 1.01;
                    check(std::abs(found[y * to.width + x] - defined(image, size, view, filter, y, x)) < allowed);
                }
            }
        }
    }
}

void test_windows_and_mirrors(const ResizeKernels& kernels) {
    const Size size{90, 70};
    for (const std::size_t channels : {1, 2, 3, 4}) {
        const Samples image = random_samples(90 * 70 * channels, static_cast<unsigned>(channels));
        for (int kind = 0; kind < 5; ++kind) {
            const auto filter = static_cast<Filter>(kind);
            for (const Size to : {Size{45, 35}, Size{90, 35}, Size{20, 70}, Size{90, 70}, Size{100, 140}}) {
                View view{{0, 0, 90, 70}, to, {0, 0, to.height, to.width}};
                const Samples whole = resized(kernels, image, size, channels, view, filter);
                if (to == size) check(whole == image, "an image of the same size stays as it is");
                view.window = {3, 4, to.height - 7, to.width - 11};
                view.is_flipped = kind % 2 == 0;
                const Samples part = resized(kernels, image, size, channels, view, filter);
                for (std::size_t y = 0; y < view.window.height; ++y) {
                    for (std::size_t x = 0; x < view.window.width; ++x) {
                        const std::size_t at = view.is_flipped ? view.window.width - 1 - x : x;
                        check(std::equal(
                            part.begin() + static_cast<std::ptrdiff_t>((y * view.window.width + x) * channels),
                            part.begin() + static_cast<std::ptrdiff_t>((y * view.window.width + x + 1) * channels),
                            whole.begin() + static_cast<std::ptrdiff_t>(((y + 3) * to.width + at + 4) * channels)));
                    }
                }
                check(resized(plain_resize_kernels(), image, size, channels, view, filter) == part, "kernels");
            }
        }
    }
}

/// Where all resized rows would take much memory, some columns are made at a time, which changes no pixel.
void test_tall_images(const ResizeKernels& kernels, Size to, bool is_flipped) {
    const Size size{60000, 1};
    const Samples image = random_samples(60000, 1);
    const View whole{{0, 0, 60000, 1}, to, {0, 0, to.height, to.width}, is_flipped};
    const Samples found = resized(kernels, image, size, 1, whole, Filter::bilinear);
    const View part{{0, 0, 60000, 1}, to, {0, 900, to.height, 400}, is_flipped};
    const Samples wanted = resized(kernels, image, size, 1, part, Filter::bilinear);
    const std::size_t at = is_flipped ? to.width - 900 - 400 : 900;
    for (std::size_t row = 0; row < to.height; ++row) {
        check(std::equal(wanted.begin() + static_cast<std::ptrdiff_t>(row * 400),
                         wanted.begin() + static_cast<std::ptrdiff_t>(row * 400 + 400),
                         found.begin() + static_cast<std::ptrdiff_t>(row * to.width + at)));
    }
}

/// Rows that are rounded before the columns differ from columns that are rounded before the rows.
void test_order_of_passes(const ResizeKernels& kernels) {
    const Size size{100, 20};
    for (const std::size_t channels : {1, 3}) {
        const Samples image = random_samples(100 * 20 * channels, 3);
        const auto make = [&](const Samples& from, Size before, Size after) {
            const View view{{0, 0, before.height, before.width}, after, {0, 0, after.height, after.width}};
            return resized(kernels, from, before, channels, view, Filter::lanczos);
        };
        for (const Size to : {Size{81, 10}, Size{80, 10}, Size{79, 10}, Size{99, 40}, Size{101, 40}}) {
            const Samples rows_first = make(make(image, size, {100, to.width}), {100, to.width}, to);
            const Samples columns_first = make(make(image, size, {to.height, 20}), {to.height, 20}, to);
            const bool are_columns_first = to == Size{79, 10} || to == Size{99, 40};
            check(make(image, size, to) == (are_columns_first ? columns_first : rows_first));
            check(rows_first != columns_first);
        }
    }
}

/// What is transparent does not shine through, except with the filter that takes pixels as they are.
void test_alpha(const ResizeKernels& kernels) {
    const Samples image{255, 0, 0, 0, 0, 0, 255, 255, 255, 0, 0, 0, 0, 0, 255, 255};
    const View view{{0, 0, 1, 4}, {1, 2}, {0, 0, 1, 2}};
    check(resized(kernels, image, {1, 4}, 4, view, Filter::box) == Samples{0, 0, 255, 128, 0, 0, 255, 128});
    check(resized(kernels, image, {1, 4}, 4, view, Filter::nearest) == Samples{0, 0, 255, 255, 0, 0, 255, 255});
    const View same{{0, 0, 1, 4}, {1, 4}, {0, 0, 1, 4}};
    check(resized(kernels, image, {1, 4}, 4, same, Filter::box) == image);
}

void test_shrinking() {
    const auto view = [](std::size_t height, std::size_t width) {
        return View{{0, 0, height, width}, {100, 100}, {0, 0, 100, 100}};
    };
    check(shrink_for(view(799, 2000), 8, 2) == 1);
    check(shrink_for(view(800, 800), 8, 2) == 4 && shrink_for(view(1600, 1600), 8, 2) == 8);
    check(shrink_for(view(1600, 1600), 4, 2) == 4 && shrink_for(view(1600, 1600), 1, 2) == 1);
    // A part of a shrunk image: the source region covers it and stays inside the image.
    Resizer resizer(plain_resize_kernels());
    resizer.plan({{5, 7, 58, 46}, {4, 4}, {0, 0, 4, 4}}, {63, 53}, Filter::bilinear, 8);
    check(resizer.needed() == Box{0, 0, 8, 7});
    const Samples grey(8 * 7, 99);
    Samples out(16);
    resizer.run({grey.data(), 7}, 1, out.data());
    check(out == Samples(16, 99));
}

} // namespace

int main() {
    check(vector_resize_kernels(Cpu{}) == nullptr);
    results_match_the_definition(plain_resize_kernels());
    test_windows_and_mirrors(plain_resize_kernels());
    for (const Cpu& cpu : runnable_cpus()) {
        if (const ResizeKernels* const vector = vector_resize_kernels(cpu)) {
            kernels_agree(plain_resize_kernels(), *vector);
            results_match_the_definition(*vector);
            test_windows_and_mirrors(*vector);
        }
    }
    const ResizeKernels* const vector = vector_resize_kernels();
    const ResizeKernels& best = vector != nullptr ? *vector : plain_resize_kernels();
    for (const bool is_flipped : {false, true}) test_tall_images(best, {2, 1300}, is_flipped); // columns first
    test_tall_images(best, {60001, 1300}, true);                                               // rows first
    test_order_of_passes(best);
    test_alpha(best);
    test_shrinking();
}
