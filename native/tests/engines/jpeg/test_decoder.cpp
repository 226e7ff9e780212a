#include "core/engines/jpeg/decoder.hpp"

#include <algorithm>

#include "base/cpus.hpp"
#include "check.hpp"
#include "core/checksum/crc32c.hpp"
#include "engines/jpeg/pictures.hpp"

using namespace headrace;
using namespace headrace::jpeg;
using namespace headrace::testing;

namespace {

std::vector<std::uint8_t> decoded(Bytes file, const Kernels& kernels) {
    const auto header = plain_header(file);
    if (!header || header->height != height || header->width != width || header->channels != 3) return {};
    std::vector<std::uint8_t> out(height * width * 3);
    return Decoder(kernels).decode(file, *header, out.data()) ? out : std::vector<std::uint8_t>{};
}

std::uint32_t sum_of(const std::vector<std::uint8_t>& pixels) { return crc32c(std::as_bytes(std::span(pixels))); }

std::vector<Picture> all_pictures() {
    std::vector<Picture> all(std::begin(pictures), std::end(pictures));
    all.insert(all.end(), std::begin(progressive_pictures), std::end(progressive_pictures));
    return all;
}

void pixels_match_libjpeg(const Kernels& kernels) {
    for (const Picture& picture : all_pictures()) {
        const std::vector<std::byte> file = from_hex(picture.digits);
        check(sum_of(decoded(bytes_of(file), kernels)) == picture.sum);
        for (std::size_t size = 0; size < file.size(); ++size)
            check(decoded(Bytes(file).first(size), kernels).empty(), "cut off");
    }
}

void test_grey(const Kernels& kernels, const Picture& picture) {
    const std::vector<std::byte> file = from_hex(picture.digits);
    const auto header = plain_header(file);
    check(header && header->channels == 1);
    Decoder decoder(kernels);
    std::vector<std::uint8_t> out(height * width);
    for (int turn = 0; turn < 2; ++turn) {
        std::fill(out.begin(), out.end(), std::uint8_t{0});
        check(decoder.decode(file, *header, out.data()) && sum_of(out) == picture.sum);
        decoder.shrink(); // the decoder must survive it
    }
}

/// Every part of an image, shrunk or not, must be the part of the whole.
void regions(const Kernels& kernels, Bytes file) {
    const auto header = plain_header(file);
    check(header.has_value());
    Decoder decoder(kernels);
    for (std::size_t shrink = 1; shrink <= most_shrink(*header); shrink *= 2) {
        const std::size_t rows = shrunk(height, shrink), columns = shrunk(width, shrink);
        const std::size_t channels = header->channels;
        std::vector<std::uint8_t> whole(rows * columns * channels);
        check(decoder.decode(file, *header, {0, 0, columns, rows, shrink}, whole.data()));
        for (std::size_t top = 0; top < rows; ++top) {
            for (std::size_t left = 0; left < columns; ++left) {
                const Region region{left, top, 1 + (left * 7 + top) % (columns - left),
                                    1 + (top * 5 + left) % (rows - top), shrink};
                std::vector<std::uint8_t> part(region.height * region.width * channels + 1, 7);
                check(decoder.decode(file, *header, region, part.data()) && part.back() == 7);
                for (std::size_t row = 0; row < region.height; ++row) {
                    const auto* const from = whole.data() + ((top + row) * columns + left) * channels;
                    check(std::equal(from, from + region.width * channels, part.data() + row * region.width * channels),
                          "part");
                }
            }
        }
    }
}

void every_region_matches_the_whole_image(const Kernels& kernels) {
    for (const Picture& picture : {grey_picture, progressive_grey_picture}) {
        const std::vector<std::byte> file = from_hex(picture.digits);
        regions(kernels, bytes_of(file));
    }
    for (const Picture& picture : all_pictures()) {
        const std::vector<std::byte> file = from_hex(picture.digits);
        regions(kernels, bytes_of(file));
    }
}

} // namespace

int main() {
    every_region_matches_the_whole_image(plain_kernels());
    test_grey(plain_kernels(), grey_picture);
    test_grey(plain_kernels(), progressive_grey_picture);
    pixels_match_libjpeg(plain_kernels());
    for (const Cpu& cpu : runnable_cpus())
        if (const Kernels* const vector = vector_kernels(cpu)) {
            pixels_match_libjpeg(*vector);
            test_grey(*vector, grey_picture);
            test_grey(*vector, progressive_grey_picture);
            every_region_matches_the_whole_image(*vector);
        }
}
