#include "core/engines/jpeg/decoder.hpp"

#include <algorithm>
#include <random>

#include "check.hpp"
#include "core/checksum/crc32c.hpp"

using namespace headrace;
using namespace headrace::jpeg;
using namespace headrace::testing;

namespace {

struct Picture {
    const char* digits;
    std::uint32_t sum; ///< CRC-32C of the pixels that libjpeg-turbo 3.1.2 gives.
};

constexpr std::size_t height = 19;
constexpr std::size_t width = 21;

// 21 x 19 of quality 60, written by Pillow with codes of their own: chroma of half the width and height with a restart
// marker after every unit, of full size, and of half the width.
const Picture pictures[] = {
    {"ffd8ffe000104a46494600010100000100010000ffdb0043000d090a0b0a080d0b0a0b0e0e0d0f13201513121213271c1e17202e2931302e2"
     "92d2c33"
     "3a4a3e333646372c2d405741464c4e525352323e5a615a50604a51524fffdb0043010e0e0e131113261515264f352d354f4f4f4f4f4f4f4f4"
     "f4f4f4f"
     "4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4fffc0001108001300150301220002110103110"
     "1ffc400"
     "160001010100000000000000000000000000000506ffc4002110000104010403010000000000000000000100020411030521223212136171f"
     "fc40017"
     "010003010000000000000000000000000003040605ffc4001f1101000201040301000000000000000000010002030405111222314161ffdd0"
     "0040001"
     "ffda000c03010002110311003f00c5468175b2a386134380dac9a55a2c0bae2ab45d318483eb6dfe24f1ae5f50fb6ee386b5f315f93fffd09"
     "f8b4de3"
     "d516b1b1198c516927e044addd352dd6d63994d4dc1ea4ffd1a1118ddb8856a3b1a319200b011166e8d4c6bf927344bc93ffd2d9e0c6cf0ea"
     "11114b5"
     "03a90f55e27fffd9",
     3917422975U},
    {"ffd8ffe000104a46494600010100000100010000ffdb0043000d090a0b0a080d0b0a0b0e0e0d0f13201513121213271c1e17202e2931302e2"
     "92d2c33"
     "3a4a3e333646372c2d405741464c4e525352323e5a615a50604a51524fffdb0043010e0e0e131113261515264f352d354f4f4f4f4f4f4f4f4"
     "f4f4f4f"
     "4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4fffc0001108001300150301110002110103110"
     "1ffc400"
     "17000101010100000000000000000000000005040206ffc400211000010401040301000000000000000000010002041103052122321213617"
     "1ffc400"
     "190100020301000000000000000000000000030501040607ffc40025110002020201030305000000000000000001020003041121123141051"
     "3516171"
     "81a1f0ffda000c03010002110311003f00e2a340bad956366e130ec363aa0ee4ea2386134380dac9a43d83c4d42e25d52966238fef88a62d3"
     "78f553e"
     "c6e1aac9e26a2c0bae2ab54fb9cd31f24a9041e62d174c6120fadb7f8985480f88f6af51b98699c9fc98a3623318a2d24fc0a323368c66e86"
     "d93f4f1"
     "f78c69b8b2c8e231bb71093e319cf29631a8ec68c64802c04e0b94a1dd7b804fea36c7249129c18d9e1d42ccd4074c7d5b1d4fffd9",
     185498020U},
    {"ffd8ffe000104a46494600010100000100010000ffdb0043000d090a0b0a080d0b0a0b0e0e0d0f13201513121213271c1e17202e2931302e2"
     "92d2c33"
     "3a4a3e333646372c2d405741464c4e525352323e5a615a50604a51524fffdb0043010e0e0e131113261515264f352d354f4f4f4f4f4f4f4f4"
     "f4f4f4f"
     "4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4fffc0001108001300150301210002110103110"
     "1ffc400"
     "1800000301010000000000000000000000000004050206ffc4002110000104010403010000000000000000000100020411030521223212136"
     "171ffc4"
     "001801000301010000000000000000000000000105060403ffc40020110002020202020300000000000000000001020003041105511213226"
     "1d1ffda"
     "000c03010002110311003f00e2a340bad951c309a1c06d64d2c8cc0c71c52596a175234254c5a6f1ea843d11e264fc44d458175c5568ba630"
     "907d6db"
     "fc431b4f2078fcdb106958807ee546c4663145a49f810ba5bc963d4e6b20923ad7eca24b4950627118ddb8856a3b1a319200b0166c2621091"
     "d484c22"
     "76233831b3c3a842508a3c44ab563a9fffd9",
     241330906U},
};

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

/// Both kinds of kernels give the same bits, for whatever coefficients.
void kernels_agree(const Kernels& plain, const Kernels& vector) {
    std::mt19937 random(1);
    alignas(32) std::array<std::int16_t, 64> first, second;
    alignas(32) std::array<std::uint16_t, 64> steps;
    for (int round = 0; round < 3000; ++round) {
        const int range = 1 << (1 + round % 15);
        for (std::size_t i = 0; i < 64; ++i) {
            first[i] = static_cast<std::int16_t>(static_cast<int>(random() % static_cast<unsigned>(2 * range)) - range);
            second[i] = i < 1 + random() % 64 ? first[i] : std::int16_t{0};
            steps[i] = static_cast<std::uint16_t>(1 + random() % 255);
        }
        if (round % 4 == 0)
            std::fill(first.begin() + 8, first.end(), std::int16_t{0}); // only the first row, often too large to shift
        if (round % 8 == 0) std::fill(second.begin() + 8, second.end(), std::int16_t{0});
        std::array<std::uint8_t, 256> a{}, b{};
        plain.transform({first.data(), steps.data(), a.data(), 16}, {second.data(), steps.data(), a.data() + 8, 16});
        vector.transform({first.data(), steps.data(), b.data(), 16}, {second.data(), steps.data(), b.data() + 8, 16});
        check(a == b, "transform");
    }
    for (std::size_t columns = 1; columns < 70; ++columns) {
        std::array<std::array<std::uint8_t, 256>, 3> rows;
        for (auto& row : rows)
            for (auto& sample : row)
                sample = static_cast<std::uint8_t>(columns % 3 == 0 ? random() % 2 * 255 : random());
        std::array<std::uint8_t, 256> a{}, b{};
        plain.widen(rows[0].data() + 32, columns, a.data());
        vector.widen(rows[0].data() + 32, columns, b.data());
        check(a == b, "widen");
        plain.widen_two(rows[0].data() + 32, rows[1].data() + 32, columns, a.data());
        vector.widen_two(rows[0].data() + 32, rows[1].data() + 32, columns, b.data());
        check(a == b, "widen_two");
    }
    std::vector<std::uint8_t> y(70), cb(70), cr(70), a(210), b(210);
    for (unsigned chroma = 0; chroma < 65536; ++chroma) { // every colour, at some brightness
        const std::size_t columns = 1 + chroma % 33;
        for (std::size_t i = 0; i < 70; ++i) {
            y[i] = static_cast<std::uint8_t>(chroma * 7 + i * 31);
            cb[i] = static_cast<std::uint8_t>((chroma >> 8) + i);
            cr[i] = static_cast<std::uint8_t>(chroma + i);
        }
        plain.colours(y.data(), cb.data(), cr.data(), columns, a.data());
        vector.colours(y.data(), cb.data(), cr.data(), columns, b.data());
        check(a == b, "colours");
    }
}

/// A block of a mean only is what the whole transform makes of it.
void flat_is_the_transform(const Kernels& kernels) {
    for (int mean = -32768; mean <= 32767; ++mean) {
        alignas(32) std::array<std::int16_t, 64> coefficients{};
        alignas(32) std::array<std::uint16_t, 64> steps;
        steps.fill(1);
        coefficients[0] = static_cast<std::int16_t>(mean);
        std::array<std::uint8_t, 64> a{}, b{};
        const Block whole{coefficients.data(), steps.data(), a.data(), 8};
        kernels.transform(whole, whole);
        kernels.flat({coefficients.data(), steps.data(), b.data(), 8});
        check(a == b, "flat");
    }
}

/// Going back over bits and reading them again gives the same bits.
void bits_rewind() {
    std::vector<std::byte> bytes(64);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
    for (unsigned skipped = 0; skipped < 40; ++skipped) {
        for (unsigned back = 1; back <= std::min(skipped, 11U); ++back) {
            Bits straight{bytes.data()};
            straight.refill();
            straight.drop(skipped - back);
            Bits bits{bytes.data()};
            bits.refill();
            bits.drop(skipped);
            bits.rewind(back);
            check(bits.consumed(bytes.data()) == straight.consumed(bytes.data()));
            bits.refill();
            straight.refill();
            check(bits.next >> 8 == straight.next >> 8);
        }
    }
}

} // namespace

int main() {
    pixels_are_those_of_libjpeg(plain_kernels());
    flat_is_the_transform(plain_kernels());
    bits_rewind();
    if (const Kernels* vector = vector_kernels()) {
        pixels_are_those_of_libjpeg(*vector);
        kernels_agree(plain_kernels(), *vector);
        flat_is_the_transform(*vector);
    }
    check(!plain_header({}));
    check(!plain_header(bytes_of("\xFF\xD8\xFF\xC0")));
}
