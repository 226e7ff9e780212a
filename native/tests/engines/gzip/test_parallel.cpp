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

// `content`, compressed by zlib 1.2.13 with Huffman codes only.
const std::vector<std::byte> packed = from_hex(gzip_member_of_500);

std::vector<std::byte> content() {
    std::vector<std::byte> bytes(500);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(65 + (i * i + i / 7) % 41);
    return bytes;
}

void test_blocks_and_members() {
    check(inflate(packed, 8192).state == GzipInflater::State::done && inflate(packed, 8192).bytes == content());
    auto file = packed;
    file.insert(file.end(), packed.begin(), packed.end());
    check(inflate(file, 8192).state == GzipInflater::State::done &&
          inflate(file, 8192).bytes.size() == 2 * content().size());
    check(inflate(file, 8192, 3).state == GzipInflater::State::done &&
          inflate(file, 8192, 3).bytes.size() == 2 * content().size());
    check(inflate(file, 64).state == GzipInflater::State::refused); // larger than the inflater accepts at once
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
    GzipInflater(8192, 2).give(packed, packed.size(), true); // destroyed without being read
    check(inflate(from_hex("1f8b0800000000000003 01 0100feff 41 8b9ed9d3 01000000"), 8192).state ==
          GzipInflater::State::refused); // stored
}

void damage_is_refused() {
    for (std::size_t size = 0; size < packed.size(); ++size)
        check(inflate(Bytes(packed).first(size), 4096).state == GzipInflater::State::refused);
    unsigned accepted = 0;
    for (std::size_t bit = 0; bit < packed.size() * 8; ++bit) {
        if (bit / 8 >= 4 && bit / 8 < 10) continue; // modification time and operating system, which are ignored
        auto broken = packed;
        broken[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
        accepted += inflate(broken, 4096).state == GzipInflater::State::done ? 1U : 0U;
    }
    check(accepted <= 1 + 7); // the text flag, and the bits after the last block
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
    pieces_may_be_kept();
    test_blocks_and_members();
    damage_is_refused();
}
