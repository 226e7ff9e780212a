#include "core/pixels/geometry.hpp"

#include <random>

#include "check.hpp"

using namespace headrace::pixels;
using namespace headrace::testing;

namespace {

using Draws = std::array<double, Geometry::most_draws>;

void regions_are_inside_the_image() {
    std::mt19937 random(1);
    std::uniform_real_distribution<double> draw(0, 1);
    for (int round = 0; round < 5000; ++round) {
        Draws draws{};
        for (double& each : draws) each = draw(random);
        const Size image{1 + random() % 60, 1 + random() % 60};
        Geometry geometry;
        geometry.crop = {{8, 9}, {0.01 + 0.9 * draw(random), 1}, {0.01 + draw(random), 1 + 20 * draw(random)}};
        geometry.may_flip = round % 2 == 0;
        check(geometry.draws() == Geometry::most_draws);
        const auto view = geometry.view(image, draws.data());
        check(view && view->size == Size{8, 9} && view->window == Box{0, 0, 8, 9});
        const Box& box = view->box;
        check(box.height >= 1 && box.width >= 1);
        check(box.top + box.height <= image.height && box.left + box.width <= image.width);
        check(view->is_flipped == (geometry.may_flip && draws[0] < 0.5));
    }
}

void regions_match_torchvision() {
    Geometry geometry;
    geometry.crop = {{8, 8}, {0.25, 0.25}, {1, 1}};
    Draws draws{};
    draws[3] = 0.5;
    draws[4] = 0.999;
    check(geometry.view({100, 100}, draws.data())->box == Box{25, 50, 50, 50});
    check(geometry.view({100, 400}, draws.data())->box == Box{0, 300, 100, 100}); // a side of 100 just fits
    check(geometry.view({100, 401}, draws.data())->box == Box{0, 301, 100, 100}); // 100.1 is rounded
    // None of ten tries fits: the largest region in the middle.
    check(geometry.view({100, 600}, draws.data())->box == Box{0, 250, 100, 100});
    check(geometry.view({600, 100}, draws.data())->box == Box{250, 0, 100, 100});
    geometry.crop = {{8, 8}, {1, 1}, {0.5, 0.6}};
    for (std::size_t i = 2; i < draws.size(); i += 4) draws[i] = 0.1;
    check(geometry.view({100, 10}, draws.data())->box == Box{40, 0, 20, 10});
    geometry.crop->ratio = {0.01, 20};
    for (std::size_t i = 2; i < draws.size(); i += 4) draws[i] = 0.999;
    check(geometry.view({10, 15}, draws.data())->box == Box{0, 0, 10, 15});
}

void test_resizing() {
    Geometry geometry;
    check(geometry.draws() == 0);
    check(geometry.view({5, 7}, nullptr)->window == Box{0, 0, 5, 7});
    geometry.shorter = 256;
    check(geometry.view({375, 500}, nullptr)->size == Size{256, 341});
    check(geometry.view({500, 375}, nullptr)->size == Size{341, 256});
    geometry.centre = {224, 224};
    const auto view = geometry.view({375, 500}, nullptr);
    check(view->box == Box{0, 0, 375, 500} && view->window == Box{16, 58, 224, 224}); // 58.5 is rounded to even
    geometry.shorter.reset();
    check(!geometry.view({223, 500}, nullptr) && !geometry.view({500, 223}, nullptr));
    check(geometry.view({224, 224}, nullptr)->window == Box{0, 0, 224, 224});
    geometry.resize = {300, 301};
    check(geometry.view({10, 10}, nullptr)->window == Box{38, 38, 224, 224}); // 38.5, too
    geometry.may_flip = true;
    check(geometry.draws() == 1);
    const double half = 0.5, less = 0.499;
    check(!geometry.view({10, 10}, &half)->is_flipped && geometry.view({10, 10}, &less)->is_flipped);
}

} // namespace

int main() {
    regions_are_inside_the_image();
    regions_match_torchvision();
    test_resizing();
}
