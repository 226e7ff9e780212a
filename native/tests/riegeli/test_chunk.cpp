#include "core/riegeli/chunk.hpp"

#include <tuple>

#include "core/checksum/highway_hash.hpp"

#include "check.hpp"
#include "riegeli/files.hpp"

using namespace headrace;
using namespace headrace::riegeli;
using namespace headrace::testing;

namespace {

// Chunks of one block and of several, one that ends right before a boundary, and one with an interrupted header.
FileMaker several() {
    FileMaker maker;
    maker.put_records({"one", "", "three"});
    maker.put_records({std::string(150'000, 'x'), "y"});
    const std::uint64_t left = left_in_block(maker.file.size());
    maker.put_records({std::string(left - chunk_header_size - 5 - 20, 'z')}); // leaves 20 bytes: half a header
    maker.put_records({"behind"});
    maker.put_records({"last"});
    return maker;
}

std::vector<std::string> records_of(Bytes file, const ChunkHeader& header) {
    std::vector<std::byte> room(header.data_size);
    SimpleChunk chunk = parse_simple(read_chunk_data(file, header, room), header);
    std::vector<Bytes> records;
    split_simple(chunk, header.num_records, records);
    std::vector<std::string> out;
    for (const Bytes record : records) out.emplace_back(reinterpret_cast<const char*>(record.data()), record.size());
    return out;
}

void test_round_trip() {
    const FileMaker maker = several();
    const ChunkScan scan = scan_chunks(maker.file, 0, 100, true);
    check(!scan.faulty && scan.next == maker.file.size() && scan.chunks.size() == 6);
    check(scan.chunks[0].type == ChunkType::signature && scan.chunks[0].end == 64);
    check(records_of(maker.file, scan.chunks[1]) == std::vector<std::string>{"one", "", "three"});
    check(records_of(maker.file, scan.chunks[2]) == std::vector<std::string>{std::string(150'000, 'x'), "y"});
    check(scan.chunks[2].interrupted() && !scan.chunks[1].interrupted());
    check(records_of(maker.file, scan.chunks[4]) == std::vector<std::string>{"behind"});
    check(bad_block_headers(maker.file).empty());
    check(scan_chunks(maker.file, 64, 2, false).chunks.size() == 2);
}

void every_flip_in_a_chunk_is_a_fault() {
    FileMaker maker;
    const std::uint64_t begin = maker.put_records({"abc", "de"});
    for (std::size_t i = begin; i < maker.file.size(); ++i) {
        maker.file[i] ^= std::byte{0x10};
        const ChunkScan scan = scan_chunks(maker.file, begin, 1, true);
        check(scan.faulty && scan.fault.offset == begin);
        check(scan.fault.fault == (i < begin + 40 ? Fault::header_checksum : Fault::payload_checksum));
        maker.file[i] ^= std::byte{0x10};
    }
}

void every_truncation_is_a_fault() {
    const FileMaker maker = several();
    for (std::size_t size = 0; size < maker.file.size();
         size += size < 200 || size > maker.file.size() - 200 ? 1 : 997) {
        const ChunkScan scan = scan_chunks(Bytes(maker.file).first(size), 0, 100, true);
        const bool clean = size == 0 || (!scan.chunks.empty() && scan.chunks.back().end == size);
        check(scan.faulty != clean);
        if (scan.faulty) check(scan.fault.fault == Fault::truncated);
    }
}

void chunks_are_found_after_damage() {
    const FileMaker maker = several();
    const auto whole = scan_chunks(maker.file, 0, 100, true).chunks;
    for (std::size_t i = 0; i + 1 < whole.size(); ++i) {
        auto file = maker.file;
        const std::uint64_t header = behind_block_header(whole[i].begin);
        file[header] ^= std::byte{1};
        check(find_chunk(file, whole[i].begin + 1) == whole[i + 1].begin);
    }
    check(find_chunk(maker.file, whole.back().begin + 1) == maker.file.size());
}

// A record may itself contain chunks. Those are not chunks of this file.
void chunks_inside_a_record_are_ignored() {
    FileMaker inner;
    inner.put_records({"inner", "records"});
    FileMaker maker;
    const std::string content(reinterpret_cast<const char*>(inner.file.data()), inner.file.size());
    const std::uint64_t outer = maker.put_records({"x", content, "behind it"});
    const std::uint64_t next = maker.put_records({std::string(100'000, 'n')});
    maker.file[outer] ^= std::byte{1};
    check(find_chunk(maker.file, outer + 1) == next);
}

void sizes_are_checked_before_use() {
    check(fault_of([] { (void)read_chunk_header({}, 0); }).fault == Fault::truncated);
    check(fault_of([] { (void)read_chunk_header(several().file, 65'536 + 7); }).fault == Fault::structure);
    for (const std::uint64_t size : {std::uint64_t{1} << 40, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
        FileMaker maker;
        const std::uint64_t begin = maker.put_records({"x"});
        store_le(maker.file.data() + begin + 8, size);
        store_le(maker.file.data() + begin, riegeli_hash(Bytes(maker.file).subspan(begin + 8, 32)));
        check(fault_of([&] { (void)read_chunk_header(maker.file, begin); }).fault == Fault::truncated);
    }
    // Every record has its own position in the file, so records cannot outnumber its bytes.
    FileMaker maker;
    const std::uint64_t begin = maker.put_records({"x"});
    store_le(maker.file.data() + begin + 24, std::uint64_t{1'000'000} << 8 | 'r');
    store_le(maker.file.data() + begin, riegeli_hash(Bytes(maker.file).subspan(begin + 8, 32)));
    check(fault_of([&] { (void)read_chunk_header(maker.file, begin); }).fault == Fault::truncated);
}

void parts_are_bounded() {
    const auto stored = from_hex("ffffffff07 00000000"); // declares 2 GiB - 1
    check(read_part(Codec::none, stored).decoded.size() == stored.size());
    check(read_part(Codec::brotli, stored).decoded_size == 0x7FFFFFFF);
    check(fault_of([&] { (void)read_part(Codec::brotli, stored, 1000); }).fault == Fault::range);
    check(fault_of([&] { (void)read_part(Codec::zstd, stored); }).fault == Fault::range);
    check(fault_of([&] { (void)read_part(Codec::snappy, stored); }).fault == Fault::range);
    check(fault_of([&] { (void)read_part(Codec::zstd, {}); }).fault == Fault::truncated);
    Cursor unknown(bytes_of("x"));
    check(fault_of([&] { (void)read_codec(unknown); }).fault == Fault::structure);
}

void simple_chunks_must_fit_their_headers() {
    const auto parse = [](const char* hex, std::uint64_t num_records, std::uint64_t decoded_size) {
        const auto data = from_hex(hex);
        const ChunkHeader header{0, 40, data.size(), 0, num_records, decoded_size, 0, ChunkType::simple};
        std::vector<Bytes> records;
        split_simple(parse_simple(data, header), num_records, records);
        return records.size();
    };
    check(parse("00 02 0201 616263", 2, 3) == 2);
    check(parse("00 00", 0, 0) == 0);
    for (const auto& [hex, num_records, decoded_size] :
         std::vector<std::tuple<const char*, std::uint64_t, std::uint64_t>>{{"00 02 0201 616263", 3, 3},
                                                                            {"00 02 0201 616263", 1, 3},
                                                                            {"00 02 0201 616263", 2, 4},
                                                                            {"00 02 0202 616263", 2, 3},
                                                                            {"00 02 0101 616263", 2, 3},
                                                                            {"00 09 0201 616263", 2, 3},
                                                                            {"00 02 0280 616263", 2, 3},
                                                                            {"", 1, 0},
                                                                            {"00", 0, 0},
                                                                            {"01 00", 0, 0}})
        static_cast<void>(fault_of([&] { (void)parse(hex, num_records, decoded_size); }));
}

} // namespace

int main() {
    test_round_trip();
    every_flip_in_a_chunk_is_a_fault();
    every_truncation_is_a_fault();
    chunks_are_found_after_damage();
    chunks_inside_a_record_are_ignored();
    sizes_are_checked_before_use();
    parts_are_bounded();
    simple_chunks_must_fit_their_headers();
}
