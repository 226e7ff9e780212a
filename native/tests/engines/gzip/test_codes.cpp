#include "core/engines/gzip/codes.hpp"

#include <algorithm>
#include <memory>

#include "check.hpp"
#include "samples.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

void codes_match_the_standard() {
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

// Compares every table entry with the codes.
void the_table_says_what_the_codes_say(const deflate::Codes& codes) {
    constexpr unsigned bits = deflate::Codes::literal_bits;
    for (unsigned i = 0; i < codes.literals.size(); ++i) {
        const deflate::Symbol first = codes.long_literals.find(i);
        const deflate::Entry entry = codes.literals[i];
        check(first.bits != 0);
        if (first.bits > bits || first.value >= deflate::end_of_block) {
            check(entry == (first.bits > bits ? deflate::other_flag
                                              : deflate::other_flag | first.value << 16 | first.bits << 25));
            continue;
        }
        const deflate::Symbol second = codes.long_literals.find(i >> first.bits);
        const unsigned both = first.bits + second.bits;
        if (both > bits || second.value >= deflate::end_of_block)
            check(entry == (first.bits | 1U << 8 | first.value << 16));
        else check(entry == (both | 2U << 8 | first.value << 16 | second.value << 24));
    }
}

void tables_match_codes() {
    const auto codes = std::make_unique<deflate::Codes>();
    codes->fix();
    the_table_says_what_the_codes_say(*codes);
    std::uint32_t state = 1;
    unsigned pairs = 0, longer = 0;
    for (int turn = 0; turn < 200; ++turn) {
        // A random tree: split leaves until there are enough of them.
        const auto random = [&](std::uint32_t below) { return (state = state * 1664525 + 1013904223) / 65536 % below; };
        std::vector<unsigned> leaves{1, 1};
        const std::size_t wanted = 258 + random(28);
        while (leaves.size() < wanted) {
            const std::size_t at =
                random(3) == 0 ? leaves.size() - 1 : random(static_cast<std::uint32_t>(leaves.size()));
            if (leaves[at] == 15) continue;
            leaves.push_back(++leaves[at]);
        }
        for (std::size_t i = leaves.size(); i > 1; --i)
            std::swap(leaves[i - 1], leaves[random(static_cast<std::uint32_t>(i))]);
        // A dynamic block: lengths 0 to 15 with four-bit codes, and a single distance of one bit.
        std::vector<std::byte> block(400);
        std::size_t at = 0;
        const auto put = [&](unsigned value, unsigned count) {
            for (unsigned bit = 0; bit < count; ++bit, ++at)
                block[at / 8] |= static_cast<std::byte>((value >> bit & 1) << (at % 8));
        };
        put(static_cast<unsigned>(wanted) - 257, 5), put(0, 5), put(15, 4);
        for (unsigned i = 0; i < 19; ++i) put(i < 3 ? 0 : 4, 3); // no codes for the three repeat symbols
        leaves.push_back(1);
        for (const unsigned length : leaves)
            for (unsigned bit = 4; bit-- != 0;) put(length >> bit & 1, 1);
        std::uint64_t from = 0;
        check(codes->read(block, from) && from == at);
        the_table_says_what_the_codes_say(*codes);
        for (const deflate::Entry entry : codes->literals)
            pairs += (entry >> 8 & 0xFF) == 2 ? 1 : 0, longer += entry == deflate::other_flag ? 1 : 0;
    }
    check(pairs > 1000 && longer > 100);
}

// Finds a block's start bit by bit, following the standard.
std::uint64_t find_plainly(Bytes data, std::uint64_t from, std::uint64_t until, deflate::Codes& room) {
    for (std::uint64_t at = from; at < until; ++at) {
        const std::uint64_t bits = deflate::bits_at(data, at);
        std::uint64_t after = at + 3;
        if ((bits & 7) == 4 && room.read(data, after, true)) return at;
    }
    return until;
}

void blocks_are_found_at_any_bit() {
    deflate::Codes room;
    std::vector<std::byte> bytes = from_hex(gzip_member_of_500);
    bytes[10] ^= std::byte{1}; // clears the last-block flag
    const std::vector<std::byte> block = bytes;
    std::uint32_t state = 1;
    for (int i = 0; i < 3000; ++i)
        bytes.push_back(static_cast<std::byte>((state = state * 1664525 + 1013904223) >> 24));
    bytes.insert(bytes.end(), block.begin(), block.end());
    std::size_t found = 0;
    for (std::uint64_t from = 0; from < bytes.size() * 8; from += 37) {
        const std::uint64_t until = std::min<std::uint64_t>(from + 1500, bytes.size() * 8);
        const std::uint64_t at = find_plainly(bytes, from, until, room);
        check(deflate::find_block(bytes, from, until, room) == at);
        found += at != until ? 1U : 0U;
    }
    check(found > 10);
}

} // namespace

int main() {
    codes_match_the_standard();
    tables_match_codes();
    blocks_are_found_at_any_bit();
}
