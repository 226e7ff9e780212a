#include "core/riegeli/read.hpp"

#include "check.hpp"
#include "core/engines/zstd/stored.hpp"
#include "riegeli/files.hpp"

using namespace headrace;
using namespace headrace::riegeli;
using namespace headrace::testing;

namespace {

Chunks open(Bytes file, const std::vector<std::int64_t>& begins, std::uint64_t most_bytes = 1 << 20) {
    return {std::make_shared<Pool>(0), file, {begins, {}, most_bytes, true}};
}

std::vector<std::string> texts(const Chunks& chunks) {
    std::vector<std::string> out;
    for (const Bytes record : chunks.records())
        out.emplace_back(reinterpret_cast<const char*>(record.data()), record.size());
    return out;
}

void plain_chunks_are_views_of_the_file() {
    FileMaker maker;
    std::vector<std::int64_t> begins;
    begins.push_back(static_cast<std::int64_t>(maker.put_records({"a", "bc"})));
    begins.push_back(static_cast<std::int64_t>(maker.put_records({"", "d"})));
    const Chunks chunks = open(maker.file, begins);
    check(chunks.jobs().empty() && chunks.size() == 2 && chunks.held_bytes() == 0);
    check(texts(chunks) == std::vector<std::string>{"a", "bc", "", "d"});
    check(chunks.records()[0].data() > maker.file.data() &&
          chunks.records()[0].data() < maker.file.data() + maker.file.size());
    check(texts(open(maker.file, {begins[1], begins[0], begins[1]})) ==
          std::vector<std::string>{"", "d", "a", "bc", "", "d"});
}

void interrupted_chunks_are_joined() {
    FileMaker maker;
    const std::string large(200'000, 'x');
    const auto begin = static_cast<std::int64_t>(maker.put_records({large, "end"}));
    const Chunks chunks = open(maker.file, {begin});
    check(texts(chunks) == std::vector<std::string>{large, "end"});
    check(chunks.held_bytes() >= 200'000 && chunks.memory().size() == 1);
}

// One record, "hello", under Zstandard. Its frame is a raw block, or one that needs libzstd.
std::vector<std::byte> zstd_data(bool stored) {
    std::vector<std::byte> data = from_hex("7a 0b 01 28b52ffd 20 01 090000 05 05 28b52ffd 20 05");
    const auto block = from_hex(stored ? "290000 68656c6c6f" : "2d0000 68656c6c6f"); // raw, and "compressed"
    data.insert(data.end(), block.begin(), block.end());
    return data;
}

void stored_frames_need_no_library() {
    FileMaker maker;
    const auto begin = static_cast<std::int64_t>(maker.put_data(ChunkType::simple, 1, 5, zstd_data(true)));
    const Chunks chunks = open(maker.file, {begin});
    check(chunks.jobs().empty() && texts(chunks) == std::vector<std::string>{"hello"} && chunks.held_bytes() == 0);
    check(open(maker.file, {begin, begin}).held_bytes() == 0);
}

void other_frames_become_jobs() {
    FileMaker maker;
    const auto begin = static_cast<std::int64_t>(maker.put_data(ChunkType::simple, 1, 5, zstd_data(false)));
    Chunks chunks = open(maker.file, {begin, begin});
    check(chunks.jobs().size() == 2);
    for (const Chunks::Job& job : chunks.jobs()) {
        check(job.codec == Codec::zstd && job.target.size() == 5 && job.source.size() == 14);
        std::memcpy(job.target.data(), job.chunk == 0 ? "first" : "other", 5);
    }
    chunks.advance();
    check(chunks.jobs().empty() && texts(chunks) == std::vector<std::string>{"first", "other"});
}

void reads_are_bounded_but_never_empty() {
    FileMaker maker;
    std::vector<std::int64_t> begins;
    for (int i = 0; i < 4; ++i) begins.push_back(static_cast<std::int64_t>(maker.put_records({"12345", "67890"})));
    check(open(maker.file, begins, 1000).size() == 4);
    check(open(maker.file, begins, 25).size() == 2);
    check(open(maker.file, begins, 1).size() == 1);
    check(open(maker.file, begins, 0).size() == 1);
}

void faults_name_their_chunk() {
    FileMaker maker;
    const std::uint64_t first = maker.put_records({"a"});
    const std::uint64_t second = maker.put_records({"b"});
    const std::vector<std::int64_t> begins = {static_cast<std::int64_t>(first), static_cast<std::int64_t>(second)};
    maker.file[second + 42] ^= std::byte{1};
    const FormatError data = fault_of([&] { (void)open(maker.file, begins); });
    check(data.fault == Fault::payload_checksum && data.record == 1 && data.offset == second);
    maker.file[second + 2] ^= std::byte{1};
    const FormatError header = fault_of([&] { (void)open(maker.file, begins); });
    check(header.fault == Fault::header_checksum && header.record == 1 && header.offset == second);
    const FormatError kind = fault_of([&] { (void)open(maker.file, {0}); });
    check(kind.fault == Fault::structure && kind.record == 0);
    const std::vector<std::int64_t> counts = {2};
    const FormatError count =
        fault_of([&] { (void)Chunks(std::make_shared<Pool>(0), maker.file, {{&begins[0], 1}, counts, 0, true}); });
    check(count.fault == Fault::structure && count.expected == 2 && count.found == 1);
    static_cast<void>(fault_of([&] { (void)open(maker.file, {-1}); }));
}

} // namespace

int main() {
    plain_chunks_are_views_of_the_file();
    interrupted_chunks_are_joined();
    stored_frames_need_no_library();
    other_frames_become_jobs();
    reads_are_bounded_but_never_empty();
    faults_name_their_chunk();
}
