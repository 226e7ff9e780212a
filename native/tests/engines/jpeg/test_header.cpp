#include "core/engines/jpeg/header.hpp"

#include <algorithm>
#include <set>

#include "check.hpp"
#include "engines/jpeg/pictures.hpp"

using namespace headrace;
using namespace headrace::jpeg;
using namespace headrace::testing;

namespace {

std::vector<std::byte> picture(std::size_t number) { return from_hex(pictures[number].digits); }

// The position of a marker's segment.
std::size_t find_segment(const std::vector<std::byte>& file, unsigned marker) {
    for (std::size_t at = 2;;
         at += 2 + std::to_integer<std::size_t>(file[at + 2]) * 256 + std::to_integer<std::size_t>(file[at + 3]))
        if (file[at + 1] == static_cast<std::byte>(marker)) return at;
}

void test_fields() {
    const unsigned across[] = {2, 1, 2}, down[] = {2, 1, 1};
    for (std::size_t i = 0; i < 3; ++i) {
        const auto header = plain_header(picture(i));
        check(header && header->height == height && header->width == width && header->channels == 3);
        check(header->components[0].across == across[i] && header->components[0].down == down[i]);
        check(header->components[1].across == 1 && header->components[2].down == 1);
        check(header->restart == (i == 0 ? 1 : 0));
        check(header->steps[0][0] == 13 && header->dc[0] && header->ac[0]);
        check(header->scan.begin == find_segment(picture(i), 0xDA) + 2 + 12);
    }
}

void zigzag_matches_the_standard() {
    const std::uint8_t first[] = {0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12};
    check(std::equal(std::begin(first), std::end(first), zigzag.begin()));
    check(std::set<std::uint8_t>(zigzag.begin(), zigzag.begin() + 64).size() == 64 && zigzag[63] == 63);
    check(std::all_of(zigzag.begin() + 64, zigzag.end(), [](std::uint8_t place) { return place == 64; }));
}

void everything_else_is_left_to_the_library() {
    const std::vector<std::byte> file = picture(0);
    const std::size_t scan = plain_header(file)->scan.begin;
    for (std::size_t size = 0; size < scan; ++size) check(!plain_header(Bytes(file).first(size)), "cut off");
    const auto refuses = [&](std::size_t at, unsigned value) {
        auto changed = file;
        changed[at] = static_cast<std::byte>(value);
        return !plain_header(changed);
    };
    const std::size_t frame = find_segment(file, 0xC0), codes = find_segment(file, 0xC4);
    check(refuses(0, 0) && refuses(frame + 1, 0xC2)); // not a JPEG; progressive
    check(refuses(frame + 4, 12));                    // 12 bits per sample
    check(refuses(frame + 9, 4));                     // CMYK
    check(refuses(frame + 11, 0x44));                 // sampling factor of four in both directions
    check(refuses(frame + 5, 0xFF) == false);         // 65,299 rows are valid
    check(refuses(frame + 6, 0));                     // no rows
    check(refuses(codes + 4, 0x0F));                  // table 15 of codes
    check(refuses(scan - 3, 1) && refuses(scan - 2, 62) && refuses(scan - 1, 0x10)); // a part of the coefficients
    // Whatever a byte is, nothing is read past the end (the sanitizers check).
    for (std::size_t at = 0; at < scan; ++at)
        for (unsigned value = 0; value < 256; value += 5) static_cast<void>(refuses(at, value));
    check(!plain_header({}) && !plain_header(bytes_of("\xFF\xD8\xFF\xC0")));
}

// Without a JFIF segment, Adobe's decides whether the planes are luma and chroma.
void other_segments_are_skipped() {
    const std::vector<std::byte> file = picture(1);
    const auto with = [&](const char* segment) {
        auto changed = from_hex(segment);
        changed.insert(changed.begin(), {std::byte{0xFF}, std::byte{0xD8}});
        changed.insert(changed.end(), file.begin() + 20, file.end()); // after the JFIF segment
        return plain_header(changed).has_value();
    };
    check(with("") && with("ffee 000e 41646f6265 0064 0000 0000 01"));
    check(!with("ffee 000e 41646f6265 0064 0000 0000 00") && !with("ffee 000e 41646f6265 0064 0000 0000 02"));
    check(with("ffee 000e 41646f6266 0064 0000 0000 00") && with("fffe 0004 6869")); // not Adobe's; a comment
    check(with("ffee 000d 41646f6265 0064 0000 0000")); // too short to be Adobe's, as in libjpeg
}

void test_grey() {
    const auto header = plain_header(from_hex(grey_picture.digits));
    check(header && header->channels == 1 && header->height == height && header->width == width);
    check(header->components[0].across == 1 && header->components[0].down == 1);
}

} // namespace

int main() {
    other_segments_are_skipped();
    test_grey();
    test_fields();
    zigzag_matches_the_standard();
    everything_else_is_left_to_the_library();
}
