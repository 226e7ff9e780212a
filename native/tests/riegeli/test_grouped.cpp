#include "core/riegeli/grouped.hpp"

#include "check.hpp"
#include "riegeli/files.hpp"

using namespace headrace;
using namespace headrace::riegeli;
using namespace headrace::testing;

namespace {

// Records of 5, 7 and 3 bytes: one block of five equal letters, one of "hello" as it is, one of five equal letters.
constexpr const char* sizes_frame = "7a 0d 03 28b52ffd 20 03 190000 050703 ";
const std::string mixed = std::string(sizes_frame) + "0f 28b52ffd 20 0f 2a0000 61 280000 68656c6c6f 2b0000 78";
const std::string stored_first =
    std::string(sizes_frame) + "0f 28b52ffd 20 0f 280000 68656c6c6f 280000 776f726c64 2b0000 78";
const std::string stored_only = std::string(sizes_frame) + "0f 28b52ffd 20 0f 280000 68656c6c6f 290000 ";

std::shared_ptr<Pool> pool() {
    static const auto made = std::make_shared<Pool>(std::size_t{1} << 20);
    return made;
}

std::shared_ptr<GroupedChunk> open(Bytes file, std::uint64_t begin, std::uint64_t count, GroupedChunk::Check how = {}) {
    return GroupedChunk::open(pool(), file, begin, count, how);
}

std::string record(const GroupedChunk& chunk, Bytes file, std::size_t place) {
    std::string copied(chunk.size(place), '?');
    chunk.copy(file, place, reinterpret_cast<std::byte*>(copied.data()));
    const Bytes view = chunk.view(file, place);
    if (view.data() != nullptr) check(copied == std::string(reinterpret_cast<const char*>(view.data()), view.size()));
    return copied;
}

void blocks_are_decompressed_as_far_as_wanted() {
    FileMaker maker;
    const std::uint64_t begin = maker.put_data(ChunkType::simple, 3, 15, from_hex(mixed));
    const auto chunk = open(maker.file, begin, 3);
    check(chunk && chunk->count() == 3 && chunk->decoded_size() == 15 && chunk->is_packed());
    check(!chunk->has(0) && !chunk->has(2));
    check(chunk->reach(maker.file, 0) && chunk->has(0) && !chunk->has(1) && !chunk->is_loaded());
    check(record(*chunk, maker.file, 0) == "aaaaa" && chunk->owns(chunk->view(maker.file, 0)));
    const std::size_t waiting = chunk->held_bytes();
    check(chunk->reach(maker.file, 2) && chunk->is_loaded());
    check(chunk->held_bytes() < waiting); // The decoder is gone.
    check(record(*chunk, maker.file, 1) == "helloxx" && record(*chunk, maker.file, 2) == "xxx");
    check(chunk->reach({}, 1)); // The file is not needed any more.
    chunk->forget();
    check(!chunk->has(0) && !chunk->is_loaded() && chunk->held_bytes() < 1000);
    check(chunk->reach(maker.file, 1) && record(*chunk, maker.file, 1) == "helloxx");
    chunk->forget(); // while its decoder waits
    check(chunk->reach(maker.file, 2) && record(*chunk, maker.file, 2) == "xxx");
}

void stored_blocks_are_read_from_the_file() {
    FileMaker maker;
    const std::uint64_t begin = maker.put_data(ChunkType::simple, 3, 15, from_hex(stored_first));
    const auto chunk = open(maker.file, begin, 3);
    check(chunk->has(0) && !chunk->has(1) && !chunk->owns(chunk->view(maker.file, 0)));
    check(record(*chunk, maker.file, 0) == "hello");
    check(!chunk->reach(Bytes(maker.file).first(begin + 60), 0)); // The file became shorter.
    check(chunk->reach(maker.file, 2));
    check(record(*chunk, maker.file, 0) == "hello" && record(*chunk, maker.file, 1) == "worldxx");
    check(chunk->owns(chunk->view(maker.file, 0)));
}

// Block headers interrupt some of these records; others are contiguous.
void plain_records_need_no_memory() {
    FileMaker maker;
    std::vector<std::string> records;
    for (std::size_t i = 0; i < 9; ++i) records.emplace_back(i * 9000, static_cast<char>('a' + i));
    const std::uint64_t begin = maker.put_records(records);
    const auto chunk = open(maker.file, begin, records.size());
    check(chunk && !chunk->is_packed() && chunk->held_bytes() < 1000);
    std::size_t in_one_piece = 0;
    for (std::size_t i = 0; i < records.size(); ++i) {
        check(chunk->reach(maker.file, i) && record(*chunk, maker.file, i) == records[i]);
        in_one_piece += chunk->view(maker.file, i).data() != nullptr ? 1 : 0;
    }
    check(in_one_piece > 1 && in_one_piece < records.size());
    check(chunk->load(maker.file) && chunk->is_loaded());
    for (std::size_t i = 0; i < records.size(); ++i) check(record(*chunk, {}, i) == records[i]);
}

void test_records_decoded_elsewhere() {
    const std::vector<std::string> records = {"one", "", "three"};
    std::vector<Bytes> views;
    for (const std::string& text : records) views.push_back(bytes_of(text));
    const auto chunk = GroupedChunk::copy_of(pool(), views);
    check(chunk->is_loaded() && chunk->load({}));
    for (std::size_t i = 0; i < records.size(); ++i) {
        check(chunk->reach({}, i) && record(*chunk, {}, i) == records[i]);
        check(chunk->view({}, i).data() != nullptr);
    }
}

void other_chunks_are_left() {
    FileMaker maker;
    const std::uint64_t sound = maker.put_data(ChunkType::simple, 3, 15, from_hex(mixed));
    check(open(maker.file, sound, 3) && !open(maker.file, sound, 2) && !open(maker.file, sound + 1, 3));
    check(!open(maker.file, sound, 3, {true, 14}) && open(maker.file, sound, 3, {true, 15}));
    check(!open(maker.file, maker.put_data(ChunkType::transposed, 3, 15, from_hex(mixed)), 3));
    check(!open(maker.file, maker.put_data(ChunkType::simple, 3, 14, from_hex(mixed)), 3)); // another size
    check(!open(maker.file, maker.put_data(ChunkType::simple, 3, 15, from_hex("62" + mixed.substr(2))), 3)); // Brotli
    check(!open(maker.file, maker.put_data(ChunkType::simple, 3, 15, from_hex(stored_only)), 3));            // cut off
    check(!open(maker.file, maker.put_data(ChunkType::simple, 3, 15, {}), 3));
    check(open(maker.file, maker.put_records({"a", "b"}), 2, {true, 0}) != nullptr); // nothing to decompress
    FileMaker late;
    const auto begin = late.put_data(ChunkType::simple, 3, 15, from_hex(mixed + "00")); // more after the frame
    const auto chunk = open(late.file, begin, 3);
    check(chunk && chunk->reach(late.file, 0) && !chunk->reach(late.file, 2) && !chunk->reach(late.file, 2));
}

// No damage, wherever it is, makes a record of other bytes unless the hash is not compared, and none crashes.
void every_flipped_bit_is_found() {
    FileMaker maker;
    const std::uint64_t begin = maker.put_data(ChunkType::simple, 3, 15, from_hex(mixed));
    for (std::size_t bit = begin * 8; bit < maker.file.size() * 8; ++bit) {
        std::vector<std::byte> file = maker.file;
        file[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
        check(!open(file, begin, 3));
        const auto chunk = open(file, begin, 3, {false});
        if (chunk && chunk->reach(file, 2))
            for (std::size_t i = 0; i < 3; ++i) (void)record(*chunk, file, i);
    }
}

// The file changes after the chunk was opened.
void changing_files_are_safe() {
    FileMaker maker;
    const std::uint64_t begin = maker.put_data(ChunkType::simple, 3, 15, from_hex(mixed));
    for (std::size_t at = begin; at < maker.file.size(); ++at) {
        std::vector<std::byte> file = maker.file;
        const auto chunk = open(file, begin, 3);
        file[at] = std::byte{0xFF};
        if (chunk->reach(file, 2)) (void)record(*chunk, file, 1);
    }
}

} // namespace

int main() {
    blocks_are_decompressed_as_far_as_wanted();
    stored_blocks_are_read_from_the_file();
    plain_records_need_no_memory();
    test_records_decoded_elsewhere();
    other_chunks_are_left();
    every_flipped_bit_is_found();
    changing_files_are_safe();
}
