#include "core/gzip_inflater.hpp"

#include <algorithm>

#include "check.hpp"

using namespace penstock;
using namespace penstock::testing;

namespace {

struct Found {
    std::vector<std::byte> bytes;
    GzipInflater::State state;
};

Found inflate(Bytes file, std::size_t stretch, unsigned threads = 1, std::size_t margin = GzipInflater::usual_margin) {
    GzipInflater inflater(stretch, threads, margin);
    Found found{};
    std::size_t at = 0;
    while (inflater.state() == GzipInflater::State::going && (inflater.has_room() || inflater.waiting() != 0)) {
        while (inflater.has_room()) {
            const bool last = file.size() - at <= inflater.own() + inflater.margin();
            const std::size_t own = last ? file.size() - at : inflater.own();
            inflater.give(file.subspan(at, last ? own : own + inflater.margin()), own, last);
            at += own;
        }
        for (const Bytes part : inflater.take()) found.bytes.insert(found.bytes.end(), part.begin(), part.end());
    }
    found.state = inflater.state();
    return found;
}

// What zlib 1.2.13 makes of `content` by Huffman codes alone.
const std::vector<std::byte> packed = from_hex(
    "1f8b080000000000040305c1090244200000c0b7d5aa2821d1a54407f9ff077606404485abd482edd3246b8e5a49b97e783285ba9fee3c0751cd94e09e2dfa82"
    "73240e07de826408b406f1b89d60be864093c4d5ef0b1fb950e1e9f7c2af314b94ac60042132aeae90bdce79697604e9507295cae7df7480f5593fcbdaa90567"
    "8c0b73017ec0ed5328aee4bdbd35d6dfdfb0ddc44083a340c56b2984d4e121f2ee1df2ac1ade3d299e31bd68762f3ffb3056cd40f2566b1b32e4f69d2e760b78"
    "4afa7b6ba9ad63dbd5c932650183202d9d21c4fcf56becb647bcaa2f76193a0020a2c2556ac1f669923547ada45c3f3c9942dd4f779e83a8664a70cf167dc139"
    "1287036f4132045a8378dc4e305f43a049e2eaf7858f5ca8f0f47be1d798254a56308210195757c85ee7bc343b827428b94ae5f36f3ac0faac9f65edd48233c6"
    "85b9003fe0f6291457f2dede1aebef6fd86e62a0c151a0e2b51442eaf01079f70e79560def9e14cf985e34bbf70fd7cbc9a8f4010000");

std::vector<std::byte> content() {
    std::vector<std::byte> bytes(500);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(65 + (i * i + i / 7) % 41);
    return bytes;
}

void blocks_and_members() {
    check(inflate(packed, 8192).state == GzipInflater::State::done && inflate(packed, 8192).bytes == content());
    auto file = packed;
    file.insert(file.end(), packed.begin(), packed.end());
    check(inflate(file, 8192).state == GzipInflater::State::done && inflate(file, 8192).bytes.size() == 2 * content().size());
    check(inflate(file, 8192, 3).state == GzipInflater::State::done && inflate(file, 8192, 3).bytes.size() == 2 * content().size());
    check(inflate(file, 64).state == GzipInflater::State::refused); // larger than what it takes at once
    file.push_back(std::byte{0});
    check(inflate(file, 8192).state == GzipInflater::State::refused && inflate(file, 8192).bytes.size() == 2 * content().size());
    file.pop_back();
    for (const std::size_t stretch : {100, 200, 300, 600}) {
        const Found found = inflate(file, stretch, 2, 400); // several parts
        check(found.state == GzipInflater::State::refused || found.bytes.size() == 2 * content().size());
    }
    check(inflate(file, 300, 2, 500).state == GzipInflater::State::done);
    check(inflate({}, 8192).state == GzipInflater::State::refused);
    GzipInflater(8192, 2).give(packed, packed.size(), true); // never taken
    check(inflate(from_hex("1f8b0800000000000003 01 0100feff 41 8b9ed9d3 01000000"), 8192).state == GzipInflater::State::refused); // stored
}

void damage_is_refused() {
    for (std::size_t size = 0; size < packed.size(); ++size) check(inflate(Bytes(packed).first(size), 4096).state == GzipInflater::State::refused);
    unsigned accepted = 0;
    for (std::size_t bit = 0; bit < packed.size() * 8; ++bit) {
        if (bit / 8 >= 4 && bit / 8 < 10) continue; // of a time and a system that nobody asks for
        auto broken = packed;
        broken[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
        accepted += inflate(broken, 4096).state == GzipInflater::State::done ? 1U : 0U;
    }
    check(accepted <= 1 + 7); // the flag of text, and the bits behind the last block
}

void codes_are_those_of_the_standard() {
    // RFC 1951, 3.2.2: lengths 3, 3, 3, 3, 3, 2, 4, 4 have the codes 010, 011, 100, 101, 110, 00, 1110, 1111.
    const std::array<std::uint8_t, 8> lengths = {3, 3, 3, 3, 3, 2, 4, 4};
    deflate::Canonical codes;
    check(codes.open(lengths.data(), 8) == deflate::Canonical::Kind::complete);
    check(codes.find(0b010).value == 0 && codes.find(0b001).value == 3 - 1 && codes.find(0b00).value == 5);
    check(codes.find(0b0111).value == 6 && codes.find(0b1111).value == 7 && codes.find(0b1111).bits == 4);
    check(codes.open(lengths.data(), 7) == deflate::Canonical::Kind::wrong);
    const std::array<std::uint8_t, 3> many = {1, 1, 1}, one = {0, 1, 0}, none = {0, 0, 0};
    check(codes.open(many.data(), 3) == deflate::Canonical::Kind::wrong);
    check(codes.open(one.data(), 3) == deflate::Canonical::Kind::single && codes.find(1).bits == 0);
    check(codes.open(none.data(), 3) == deflate::Canonical::Kind::empty && codes.find(0).bits == 0);
}

void pairs_are_the_same_by_eights() {
    if (!deflate::has_avx2) return;
    decltype(deflate::Codes::literals) one, plain, wide;
    std::uint32_t state = 1;
    for (deflate::Entry& entry : one) {
        state = state * 1664525 + 1013904223;
        const deflate::Entry value = state >> 24, length = 1 + (state >> 16 & 0xFF) % deflate::Codes::literal_bits;
        entry = (state >> 12 & 15) == 0 ? deflate::other_flag | (256 + value % 30) << 16 | length << 25 : length | 1U << 8 | value << 16;
    }
    deflate::pair_up(one.data(), plain);
    deflate::pair_up_avx2(one.data(), wide);
    check(plain == wide && plain != one);
}

} // namespace

int main() {
    pairs_are_the_same_by_eights();
    blocks_and_members();
    damage_is_refused();
    codes_are_those_of_the_standard();
}
