// Reads arbitrary bytes, as a file and as chunk contents with valid hashes. The result is a fault, or records whose
// number and size match the header. The content of compressed parts is made up, since other code decompresses them.
#include <algorithm>
#include <cstdlib>

#include "core/riegeli/array_record.hpp"
#include "core/riegeli/read.hpp"
#include "core/riegeli/single.hpp"
#include "riegeli/files.hpp"

using namespace headrace;
using namespace headrace::riegeli;

namespace {

constexpr std::uint64_t most = 1 << 20;

void must(bool good) {
    if (!good) std::abort();
}

void do_jobs(Chunks& chunks) {
    while (!chunks.jobs().empty()) {
        for (const Chunks::Job& job : chunks.jobs())
            for (std::size_t i = 0; i < job.target.size(); ++i)
                job.target[i] = job.source.empty() ? std::byte{0} : job.source[i % job.source.size()];
        chunks.advance();
    }
}

std::vector<std::vector<std::byte>> read(Bytes file, std::span<const std::int64_t> begins, bool verify) {
    Chunks chunks(std::make_shared<Pool>(0), file, {begins, {}, most << 4, verify, most});
    do_jobs(chunks);
    std::vector<std::vector<std::byte>> records;
    for (const Bytes record : chunks.records()) records.emplace_back(record.begin(), record.end());
    return records;
}

// Chunks of one record read in one pass must give the same as through `Chunks`.
void singles(Bytes file, std::span<const std::int64_t> begins) {
    std::vector<Single> all;
    for (const std::int64_t begin : begins) all.push_back({file, static_cast<std::uint64_t>(begin)});
    read_single_headers(all, 2);
    std::erase_if(all, [](const Single& single) { return single.header.num_records == 0; });
    std::vector<std::vector<std::byte>> rooms;
    for (Single& single : all) {
        rooms.emplace_back(single.header.decoded_size);
        single.target = rooms.back();
    }
    read_singles(all, true, 2);
    for (const Single& single : all) {
        if (!single.done) continue;
        const auto begin = static_cast<std::int64_t>(single.begin);
        const auto opened = read(file, {&begin, 1}, true);
        must(opened.size() == 1 && std::ranges::equal(opened[0], single.record));
    }
}

// Reading many chunks at once must match reading each alone, or report the fault of one of them.
void together(Bytes file, std::span<const std::int64_t> begins) {
    std::vector<std::vector<std::byte>> alone;
    bool faulty = false;
    std::size_t size = 0;
    for (const std::int64_t begin : begins) {
        size += read_chunk_header(file, static_cast<std::uint64_t>(begin)).decoded_size;
        if (size > most) return;
        try {
            for (auto& record : read(file, {&begin, 1}, true)) alone.push_back(std::move(record));
        } catch (const FormatError&) {
            faulty = true;
        }
    }
    try {
        const auto found = read(file, begins, true);
        must(!faulty && alone == found);
    } catch (const FormatError&) {
        must(faulty);
    }
}

void open(Bytes file, std::int64_t begin, bool verify) {
    const ChunkHeader header = read_chunk_header(file, static_cast<std::uint64_t>(begin));
    Chunks chunks(std::make_shared<Pool>(0), file, {{&begin, 1}, {}, 0, verify, most});
    do_jobs(chunks);
    std::uint64_t total = 0;
    for (const Bytes record : chunks.records()) total += record.size();
    must(chunks.records().size() == header.num_records && total == header.decoded_size);
    static_cast<void>(array_record::parse_footer(chunks.records()));
}

void as_file(Bytes file) {
    std::uint64_t at = 0;
    while (at < file.size()) {
        const ChunkScan scan = scan_chunks(file, at, 1000, true);
        std::vector<std::int64_t> begins;
        for (const ChunkHeader& chunk : scan.chunks)
            if (chunk.type == ChunkType::simple || chunk.type == ChunkType::transposed)
                begins.push_back(static_cast<std::int64_t>(chunk.begin));
        together(file, begins);
        singles(file, begins);
        for (const ChunkHeader& chunk : scan.chunks) {
            try {
                open(file, static_cast<std::int64_t>(chunk.begin), false);
            } catch (const FormatError&) { // a fault is fine
            }
        }
        if (!scan.faulty) break;
        at = find_chunk(file, scan.next + 1);
        must(at > scan.next);
    }
}

void as_chunk(Bytes data) {
    if (data.size() < 6) return;
    const auto number = [&](std::size_t i) { return std::to_integer<std::uint64_t>(data[i]); };
    testing::FileMaker maker;
    const auto type = number(0) % 2 == 0 ? ChunkType::transposed : ChunkType::simple;
    const std::uint64_t begin = maker.put_data(type, number(1) | (number(2) & 15) << 8,
                                               number(3) | number(4) << 8 | (number(5) & 3) << 16, data.subspan(6));
    open(maker.file, static_cast<std::int64_t>(begin), true);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
    const auto signature = std::byte{0x83}; // the first byte of every file
    if (size > 64 && bytes[0] == signature) as_file(bytes);
    try {
        as_chunk(bytes);
    } catch (const FormatError&) { // a fault is fine
    }
    return 0;
}
