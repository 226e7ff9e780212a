#include "core/riegeli/write.hpp"

#include <algorithm>

#include "check.hpp"
#include "riegeli/files.hpp"

using namespace headrace;
using namespace headrace::riegeli;
using namespace headrace::testing;

namespace {

void every_file_begins_the_same() {
    check(FileMaker().file ==
          from_hex("83af70d10d884a3f 0000000000000000 4000000000000000 91bac23c9287e1a9 0000000000000000 "
                   "e19f13c0e9b1c372 7300000000000000 0000000000000000"));
}

void padding_ends_at_a_boundary() {
    check(padding_end(block_size) == block_size);
    check(padding_end(block_size - 40) == block_size);
    check(padding_end(block_size - 39) == 2 * block_size); // no room for a header
    for (const std::uint64_t begin : {std::uint64_t{64}, block_size - 40, block_size - 39, block_size - 1}) {
        std::vector<std::byte> file(padding_end(begin));
        write_padding(begin, file.data() + begin);
        const ChunkHeader header = read_chunk_header(file, begin);
        check(header.type == ChunkType::padding && header.end == file.size() && header.num_records == 0);
        std::vector<std::byte> room(header.data_size);
        for (const std::byte byte : read_chunk_data(file, header, room)) check(byte == std::byte{0});
    }
}

void every_record_has_its_own_position() {
    FileMaker maker;
    const std::uint64_t begin = maker.put_data(ChunkType::simple, 100'000, 0, {});
    check(maker.file.size() == begin + 100'000);
    check(bad_block_headers(maker.file).size() == 0 &&
          read_block_header(maker.file, block_size)->next_chunk == maker.file.size() - block_size);
}

void test_prefixes() {
    const std::int64_t sizes[] = {3174, 0};
    SimplePrefixes none(Codec::none);
    none.add(sizes, nullptr);
    none.add({sizes, 1}, nullptr);
    check(std::ranges::equal(none[0], from_hex("00 03 e61800")) && std::ranges::equal(none[1], from_hex("00 02 e618")));
    SimplePrefixes zstd(Codec::zstd);
    zstd.add({sizes, 1}, nullptr); // as written by array_record 0.8.6
    check(std::ranges::equal(zstd[0], from_hex("7a 0c 02 28b52ffd 20 02 110000 e618 e618")));
    const auto packed = from_hex("aabb");
    const Bytes view(packed);
    zstd.add(sizes, &view);
    check(std::ranges::equal(zstd[1], from_hex("7a 03 03 aabb e618")));
    check(fault_of([&] { zstd.add(sizes, nullptr); }).fault == Fault::structure);
    check(encode_sizes(sizes) == from_hex("e61800"));
}

} // namespace

int main() {
    every_file_begins_the_same();
    padding_ends_at_a_boundary();
    every_record_has_its_own_position();
    test_prefixes();
}
