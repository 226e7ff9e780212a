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

void pixels_are_those_of_libjpeg(const Kernels& kernels) {
    for (const Picture& picture : pictures) {
        const std::vector<std::byte> file = from_hex(picture.digits);
        check(sum_of(decoded(bytes_of(file), kernels)) == picture.sum);
        for (std::size_t size = 0; size < file.size(); ++size)
            check(decoded(Bytes(file).first(size), kernels).empty(), "cut off");
    }
}

void grey(const Kernels& kernels) {
    const std::vector<std::byte> file = from_hex(grey_picture.digits);
    const auto header = plain_header(file);
    check(header && header->channels == 1);
    Decoder decoder(kernels);
    std::vector<std::uint8_t> out(height * width);
    for (int turn = 0; turn < 2; ++turn) {
        std::fill(out.begin(), out.end(), std::uint8_t{0});
        check(decoder.decode(file, *header, out.data()) && sum_of(out) == grey_picture.sum);
        decoder.shrink(); // the decoder must survive it
    }
}

} // namespace

int main() {
    grey(plain_kernels());
    pixels_are_those_of_libjpeg(plain_kernels());
    for (const Cpu& cpu : runnable_cpus())
        if (const Kernels* const vector = vector_kernels(cpu)) {
            pixels_are_those_of_libjpeg(*vector);
            grey(*vector);
        }
}
