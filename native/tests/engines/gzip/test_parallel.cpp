#include "core/engines/gzip/parallel.hpp"

#include <algorithm>

#include "check.hpp"
#include "core/checksum/crc32.hpp"
#include "samples.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

struct Found {
    std::vector<std::byte> bytes;
    GzipInflater::State state;
};

Found inflate(Bytes file, std::size_t stretch, unsigned threads = 1,
              std::size_t margin = GzipInflater::default_margin) {
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
        for (const GzipInflater::Piece& piece : inflater.take())
            found.bytes.insert(found.bytes.end(), piece.bytes.begin(), piece.bytes.end());
    }
    found.state = inflater.state();
    return found;
}

// What zlib 1.2.13 makes of `content` by Huffman codes alone.
const std::vector<std::byte> packed = from_hex(gzip_member_of_500);

std::vector<std::byte> content() {
    std::vector<std::byte> bytes(500);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(65 + (i * i + i / 7) % 41);
    return bytes;
}

void blocks_and_members() {
    check(inflate(packed, 8192).state == GzipInflater::State::done && inflate(packed, 8192).bytes == content());
    auto file = packed;
    file.insert(file.end(), packed.begin(), packed.end());
    check(inflate(file, 8192).state == GzipInflater::State::done &&
          inflate(file, 8192).bytes.size() == 2 * content().size());
    check(inflate(file, 8192, 3).state == GzipInflater::State::done &&
          inflate(file, 8192, 3).bytes.size() == 2 * content().size());
    check(inflate(file, 64).state == GzipInflater::State::refused); // larger than what it takes at once
    file.push_back(std::byte{0});
    check(inflate(file, 8192).state == GzipInflater::State::refused &&
          inflate(file, 8192).bytes.size() == 2 * content().size());
    file.pop_back();
    for (const std::size_t stretch : {100, 200, 300, 600}) {
        const Found found = inflate(file, stretch, 2, 400); // several parts
        check(found.state == GzipInflater::State::refused || found.bytes.size() == 2 * content().size());
    }
    check(inflate(file, 300, 2, 500).state == GzipInflater::State::done);
    check(inflate({}, 8192).state == GzipInflater::State::refused);
    GzipInflater(8192, 2).give(packed, packed.size(), true); // never taken
    check(inflate(from_hex("1f8b0800000000000003 01 0100feff 41 8b9ed9d3 01000000"), 8192).state ==
          GzipInflater::State::refused); // stored
}

void damage_is_refused() {
    for (std::size_t size = 0; size < packed.size(); ++size)
        check(inflate(Bytes(packed).first(size), 4096).state == GzipInflater::State::refused);
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

// Every entry of the table against the codes themselves.
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

void tables_are_right() {
    const auto codes = std::make_unique<deflate::Codes>();
    codes->fix();
    the_table_says_what_the_codes_say(*codes);
    std::uint32_t state = 1;
    unsigned pairs = 0, longer = 0;
    for (int turn = 0; turn < 200; ++turn) {
        // A tree of random shape: leaves are split until there are enough of them.
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
        // As a block has it: the lengths 0 to 15 with codes of four bits each, one distance of one bit.
        std::vector<std::byte> block(400);
        std::size_t at = 0;
        const auto put = [&](unsigned value, unsigned count) {
            for (unsigned bit = 0; bit < count; ++bit, ++at)
                block[at / 8] |= static_cast<std::byte>((value >> bit & 1) << (at % 8));
        };
        put(static_cast<unsigned>(wanted) - 257, 5), put(0, 5), put(15, 4);
        for (unsigned i = 0; i < 19; ++i) put(i < 3 ? 0 : 4, 3); // not the three that repeat
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

// A block's beginning as the standard has it, bit by bit.
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
    std::vector<std::byte> bytes = packed;
    bytes[10] ^= std::byte{1}; // as if it were not the last block
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

void pieces_may_be_kept() {
    std::vector<std::byte> file;
    for (int i = 0; i < 40; ++i) file.insert(file.end(), packed.begin(), packed.end());
    std::vector<GzipInflater::Piece> kept;
    std::size_t size = 0;
    {
        GzipInflater inflater(700, 2, 600);
        std::size_t at = 0;
        while (inflater.state() == GzipInflater::State::going && (inflater.has_room() || inflater.waiting() != 0)) {
            while (inflater.has_room()) {
                const bool last = file.size() - at <= inflater.own() + inflater.margin();
                const std::size_t own = last ? file.size() - at : inflater.own();
                inflater.give(Bytes(file).subspan(at, last ? own : own + inflater.margin()), own, last);
                at += own;
            }
            const auto& pieces = inflater.take();
            kept.insert(kept.end(), pieces.begin(), pieces.end());
        }
        check(inflater.state() == GzipInflater::State::done);
        std::uint32_t crc = 0;
        for (const auto& piece : kept) crc = crc32(piece.bytes, crc);
        check(crc == inflater.taken_crc());
    }
    const auto expected = content();
    for (const auto& piece : kept)
        for (const std::byte byte : piece.bytes) check(byte == expected[size++ % expected.size()]);
    check(size == 40 * expected.size());
}

} // namespace

int main() {
    blocks_are_found_at_any_bit();
    pieces_may_be_kept();
    tables_are_right();
    blocks_and_members();
    damage_is_refused();
    codes_are_those_of_the_standard();
}
