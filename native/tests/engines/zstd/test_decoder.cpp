#include "core/engines/zstd/decoder.hpp"

#include "base/cpus.hpp"
#include "check.hpp"
#include "samples.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

// Frames made by libzstd 1.5.7.
struct Example {
    const char* frame;
    std::size_t size;
    const char* begin;
};

// Sequences after raw literals; literals in four streams, and sequences; literals in one stream, and sequences.
constexpr Example text = {"28b52ffd20b955020032440e11903d0650fa43e90fa5cfff5fd3d4d8991c07f4d9699a4af8341ad3e8cb130f0896"
                          "eb2dda4daa9fe6c2d3e8ec7a86e70fc3"
                          "39ce88b2f226d504004808c009dbaf798c1e9c5419",
                          185, "the quick brown fox jumps over the lazy dog; the quick"};
constexpr Example letters = {"28b52ffd2096fd010052450707f01903527e26010d07597528c024b22d4573d68c27d94c08acc4f4380c00833"
                             "0162b0237870e6efc552c110e17d534c0"
                             "e1b3315312e4bce0da2906",
                             150, ""};
constexpr Example four = {zstd_frame_of_400, 400, ""};

Cpu cpu; // of the decoders

std::vector<std::byte> decompress(Bytes frame, std::size_t size) {
    zstd::Decoder decoder(cpu);
    std::vector<std::byte> out(size);
    check(decoder.decompress(frame, out));
    return out;
}

bool fails(Bytes frame, std::size_t size) {
    static zstd::Decoder of_this_cpu, plain(Cpu{}); // kept, so that state left by one frame meets the next
    std::vector<std::byte> out(size);
    return !(cpu == Cpu{} ? plain : of_this_cpu).decompress(frame, out);
}

void test_compressed_frames() {
    const auto words = decompress(from_hex(text.frame), text.size);
    const Bytes begin = bytes_of(std::string_view(text.begin));
    check(std::equal(begin.begin(), begin.end(), words.begin()));
    for (const std::byte letter : decompress(from_hex(letters.frame), letters.size))
        check(letter >= std::byte{'a'} && letter <= std::byte{'d'});
    for (const std::byte byte : decompress(from_hex(four.frame), four.size))
        check(byte >= std::byte{65} && byte <= std::byte{105});
}

// The caller cuts the blocks out, and lends the memory for literals.
void frames_decode_block_by_block() {
    for (const Example& example : {text, letters, four}) {
        const std::vector<std::byte> packed = from_hex(example.frame), whole = decompress(packed, example.size);
        zstd::Decoder decoder(cpu);
        zstd::Decoder::Room room;
        for (int turn = 0; turn < 2; ++turn) {
            std::vector<std::byte> out(example.size);
            zstd::Frame frame{packed};
            check(frame.header().value_or(example.size) == example.size);
            decoder.begin(out, frame.most_block);
            decoder.exchange_room(room);
            std::size_t size = 0;
            for (bool last = false; !last;) {
                const zstd::BlockHeader header = frame.block();
                const Bytes stored = frame.take(header.type == zstd::BlockType::run ? 1 : header.size);
                check(frame.fits);
                const std::size_t more = decoder.decompress_block(header, stored);
                check(more != zstd::Decoder::unsound);
                size += more;
                last = header.last;
            }
            decoder.exchange_room(room);
            check(size == example.size && out == whole);
        }
        std::vector<std::byte> small(example.size - 1);
        zstd::Frame frame{packed};
        (void)frame.header();
        decoder.begin(small, frame.most_block);
        const zstd::BlockHeader header = frame.block();
        check(decoder.decompress_block(header, frame.take(header.size)) == zstd::Decoder::unsound);
    }
}

void output_must_fill_the_target() {
    for (const Example& example : {text, letters, four})
        for (const std::size_t size : {std::size_t{0}, std::size_t{1}, example.size - 1, example.size + 1})
            check(fails(from_hex(example.frame), size));
}

// Any change must be detected or give some bytes, without access out of bounds (the sanitizers check).
void damage_is_refused() {
    for (const Example& example : {text, letters, four}) {
        const auto sound = from_hex(example.frame);
        for (std::size_t size = 0; size < sound.size(); ++size) {
            const std::vector<std::byte> cut(sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(size));
            check(fails(cut, example.size));
        }
        for (std::size_t at = 0; at < sound.size(); ++at)
            for (unsigned flip = 1; flip < 256; flip = flip * 2 + 1) {
                auto changed = sound;
                changed[at] ^= static_cast<std::byte>(flip);
                static_cast<void>(fails(changed, example.size));
            }
    }
}

void a_pair_matches_two_single_frames() {
    std::array<zstd::Decoder, 2> decoders = {zstd::Decoder(cpu), zstd::Decoder(cpu)};
    const std::vector<Example> all = {text, letters, four};
    for (const Example& one : all)
        for (const Example& other : all)
            for (const bool damaged : {false, true}) {
                const auto first = from_hex(one.frame);
                auto second = from_hex(other.frame);
                if (damaged) second.pop_back();
                std::vector<std::byte> to(one.size), to_other(other.size);
                std::array<bool, 2> done{};
                zstd::Decoder::decompress_pair(decoders, {first, second}, {to, to_other}, done);
                check(done[0] && done[1] == !damaged);
                check(to == decompress(first, one.size));
                check(damaged || to_other == decompress(second, other.size));
            }
}

void test_raw_and_run_length_blocks() {
    // Compressed blocks: raw literals and a sequence; raw literals only; a run only.
    check(decompress(from_hex("28b52ffd 00 50 5d0000 20 61626358 015403020006"), 7) == from_hex("61626361626358"));
    check(decompress(from_hex("28b52ffd 00 50 2d0000 18 616263 00"), 3) == from_hex("616263"));
    check(decompress(from_hex("28b52ffd 00 50 1d0000 19 61 00"), 3) == from_hex("616161"));
    // A window descriptor without size; a raw block "ab", a run of five "c", an empty last block.
    const auto frame = from_hex("28b52ffd 00 50 100000 6162 2a0000 63 010000");
    const auto out = decompress(frame, 7);
    check(std::equal(out.begin(), out.end(), bytes_of("abccccc").begin()));
    check(fails(frame, 6) && fails(frame, 8));
    check(decompress(from_hex("28b52ffd 20 00 010000"), 0).empty());
    check(decompress(from_hex("28b52ffd 20 02 110000 e618"), 2) == from_hex("e618"));
    check(decompress(from_hex("28b52ffd 00 a8 110000 e618"), 2) == from_hex("e618")); // a window of 2 GiB
}

void everything_else_is_left_to_the_library() {
    // Truncated; wrong magic number; a checksum; a dictionary; a reserved flag; a wrong size; a short block; an invalid
    // compressed block; a reserved block type; trailing bytes; no last block; a block larger than its window; a
    // window above 2 GiB.
    for (const char* frame :
         {"", "28b52ffd", "29b52ffd 20 02 110000 e618", "28b52ffd 24 02 110000 e618 00000000",
          "28b52ffd 21 01 02 110000 e618", "28b52ffd 28 02 110000 e618", "28b52ffd 20 03 110000 e618",
          "28b52ffd 20 02 110000 e6", "28b52ffd 20 02 150000 e618", "28b52ffd 20 02 170000 e618",
          "28b52ffd 20 02 110000 e618 00", "28b52ffd 20 02 100000 e618", "28b52ffd 20 02 1b0000 e6",
          "28b52ffd 00 a9 110000 e618", "28b52ffd 00 ff 110000 e618"})
        check(fails(from_hex(frame), 2), frame);
}

} // namespace

int main() {
    for (const Cpu& each : runnable_cpus()) {
        cpu = each;
        test_compressed_frames();
        frames_decode_block_by_block();
        output_must_fill_the_target();
        damage_is_refused();
        a_pair_matches_two_single_frames();
        test_raw_and_run_length_blocks();
        everything_else_is_left_to_the_library();
    }
}
