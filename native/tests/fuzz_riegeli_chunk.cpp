// Any bytes, as a file and as what is in a chunk with sound hashes: a fault, or records of the number and size that the header
// says. Contents of compressed parts are made up, since decompression happens elsewhere.
#include <algorithm>
#include <cstdlib>

#include "core/array_record.hpp"
#include "core/riegeli_read.hpp"
#include "riegeli_files.hpp"

using namespace penstock;
using namespace penstock::riegeli;

namespace {

constexpr std::uint64_t most = 1 << 20;

void must(bool good) {
    if (!good) std::abort();
}

void open(Bytes file, std::int64_t begin, bool verify) {
    const ChunkHeader header = read_chunk_header(file, static_cast<std::uint64_t>(begin));
    Chunks chunks(std::make_shared<Pool>(0), file, {{&begin, 1}, {}, 0, verify, most});
    while (!chunks.jobs().empty()) {
        for (const Chunks::Job& job : chunks.jobs())
            for (std::size_t i = 0; i < job.target.size(); ++i) job.target[i] = job.source.empty() ? std::byte{0} : job.source[i % job.source.size()];
        chunks.advance();
    }
    std::uint64_t total = 0;
    for (const Bytes record : chunks.records()) total += record.size();
    must(chunks.records().size() == header.num_records && total == header.decoded_size);
    static_cast<void>(array_record::parse_footer(chunks.records()));
}

void as_file(Bytes file) {
    std::uint64_t at = 0;
    while (at < file.size()) {
        const ChunkScan scan = scan_chunks(file, at, 1000, true);
        for (const ChunkHeader& chunk : scan.chunks) {
            try {
                open(file, static_cast<std::int64_t>(chunk.begin), false);
            } catch (const FormatError&) { // as good as any
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
    const std::uint64_t begin = maker.put_data(type, number(1) | (number(2) & 15) << 8, number(3) | number(4) << 8 | (number(5) & 3) << 16, data.subspan(6));
    open(maker.file, static_cast<std::int64_t>(begin), true);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
    const auto signature = std::byte{0x83}; // what every file begins with
    if (size > 64 && bytes[0] == signature) as_file(bytes);
    try {
        as_chunk(bytes);
    } catch (const FormatError&) { // as good as any
    }
    return 0;
}
