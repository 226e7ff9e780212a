#include "core/engines/jpeg/progressive.hpp"

#include <algorithm>
#include <cstring>
#include <random>

#include "base/cpus.hpp"
#include "check.hpp"
#include "engines/jpeg/pictures.hpp"

using namespace headrace;
using namespace headrace::jpeg;
using namespace headrace::testing;

namespace {

std::vector<std::byte> picture(std::size_t number) { return from_hex(progressive_pictures[number].digits); }

bool reads(Bytes file, const Cpu& cpu) {
    const auto header = plain_header(file);
    return header && header->is_progressive && ProgressiveReader(cpu).read(file, *header);
}

/// The positions of the segments with a marker.
std::vector<std::size_t> find_segments(const std::vector<std::byte>& file, unsigned marker) {
    std::vector<std::size_t> found;
    for (std::size_t at = 2; at + 4 < file.size(); ++at) {
        if (file[at] == std::byte{0xFF} && file[at + 1] == static_cast<std::byte>(marker)) found.push_back(at);
    }
    return found;
}

/// Where the first, last and lowest numbers of a scan stand.
std::size_t band_of(const std::vector<std::byte>& file, std::size_t scan) {
    return scan + 5 + 2 * std::to_integer<std::size_t>(file[scan + 4]);
}

/// Codes of 2 bits to 16, in the order of the symbols.
Codes long_codes() {
    Codes codes;
    for (unsigned length = 2; length <= 16; ++length) codes.counts[length - 1] = length < 16 ? 1 : 2;
    for (std::size_t i = 0; i < 16; ++i) codes.symbols[i] = static_cast<std::uint8_t>(i << 4 | (15 - i) % 11);
    return codes;
}

void codes_of_every_length_are_found() {
    const Codes codes = long_codes();
    ScanTable table;
    table.build(codes);
    std::uint64_t code = 0;
    std::size_t place = 0;
    for (unsigned length = 1; length <= 16; ++length, code <<= 1) {
        for (unsigned i = 0; i < codes.counts[length - 1]; ++i, ++code, ++place) {
            const std::uint32_t symbol = codes.symbols[place];
            for (const std::uint64_t behind : {std::uint64_t{0}, ~std::uint64_t{0} >> length}) {
                const std::uint32_t entry = table.next(code << (64 - length) | behind);
                check(entry >> 16 == symbol && (entry >> 8 & 31) == length && (entry & 63) == length + (symbol & 15));
            }
        }
    }
    check(table.next(~std::uint64_t{0}) == 0, "no code is all ones");
}

void both_ways_find_the_same_coefficients(const Cpu& cpu) {
    for (std::size_t number = 0; number < std::size(progressive_pictures); ++number) {
        const auto file = picture(number);
        const auto header = plain_header(file);
        check(header && header->is_progressive && header->scan.first == 0);
        ProgressiveReader plain(Cpu{}), other(cpu);
        for (int turn = 0; turn < 2; ++turn) { // The memory of an image before must not show.
            check(plain.read(file, *header) && other.read(file, *header));
            for (std::size_t i = 0; i < header->channels; ++i) {
                CoefficientPlane &a = plain.plane(i), &b = other.plane(i);
                check(a.places == b.places);
                for (std::size_t block = 0; block < a.places.size(); ++block) {
                    check(std::equal(a.block(block), a.block(block) + 64, b.block(block)));
                    for (std::size_t k = 1; k < 64; ++k) {
                        check((a.block(block)[zigzag[k]] != 0) == ((a.places[block] << k >> 63) != 0));
                    }
                }
            }
            other.shrink();
        }
    }
}

void scans_must_follow_one_another(const Cpu& cpu) {
    const auto file = picture(1);
    const auto scans = find_segments(file, 0xDA);
    check(scans.size() == 10 && reads(file, cpu));
    for (const std::size_t scan : scans) { // An image that ends before a scan is not complete.
        auto cut = file;
        cut.resize(scan);
        cut.insert(cut.end(), {std::byte{0xFF}, std::byte{0xD9}});
        check(!reads(cut, cpu), "incomplete");
    }
    for (const std::size_t scan : scans) { // Each one names what it holds: any other name is refused.
        const std::size_t band = band_of(file, scan);
        for (std::size_t field = 0; field < 3; ++field) {
            for (unsigned value = 0; value < 256; ++value) {
                auto changed = file;
                changed[band + field] = static_cast<std::byte>(value);
                if (changed != file) check(!reads(changed, cpu), "another band");
            }
        }
    }
    auto twice = file; // The last scan comes again.
    twice.insert(twice.end() - 2, file.begin() + static_cast<std::ptrdiff_t>(scans.back()), file.end() - 2);
    check(!reads(twice, cpu), "twice");
    auto quantized = file; // Steps behind the first scan.
    const auto steps = find_segments(file, 0xDB).front();
    quantized.insert(quantized.begin() + static_cast<std::ptrdiff_t>(scans[1]),
                     file.begin() + static_cast<std::ptrdiff_t>(steps),
                     file.begin() + static_cast<std::ptrdiff_t>(steps) + 69);
    check(!reads(quantized, cpu), "steps");
}

/// Damage is refused or decoded the same by both ways, and never reads or writes out of bounds (the sanitizers check).
void damage_is_refused(const Cpu& cpu) {
    std::mt19937 random(1);
    for (std::size_t number = 0; number < std::size(progressive_pictures); ++number) {
        const auto file = picture(number);
        const std::size_t begin = plain_header(file)->scan.begin;
        for (int round = 0; round < 3000; ++round) {
            auto changed = file;
            for (unsigned i = 0; i <= random() % 3; ++i) {
                changed[begin + random() % (file.size() - begin)] = static_cast<std::byte>(random());
            }
            check(reads(changed, cpu) == reads(changed, Cpu{}), "damage");
        }
    }
}

void a_small_file_cannot_declare_a_large_image() {
    auto file = picture(1);
    const std::size_t frame = find_segments(file, 0xC2).front();
    for (const std::size_t at : {frame + 5, frame + 7}) file[at] = std::byte{0x10}; // 4096 and more
    const auto header = plain_header(file);
    check(header && header->width > 4096 && header->height > 4096);
    check(!ProgressiveReader(this_cpu).read(file, *header));
}

} // namespace

int main() {
    codes_of_every_length_are_found();
    a_small_file_cannot_declare_a_large_image();
    for (const Cpu& cpu : runnable_cpus()) {
        both_ways_find_the_same_coefficients(cpu);
        scans_must_follow_one_another(cpu);
        damage_is_refused(cpu);
    }
}
