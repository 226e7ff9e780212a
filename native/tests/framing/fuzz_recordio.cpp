// Scans, finds, joins and frames arbitrary bytes. Both ways of joining must accept every scanned record, and framing
// the payloads of one-part records must restore the bytes.
#include <cstdlib>
#include <cstring>

#include "core/framing/recordio.hpp"

using namespace headrace;

namespace {

void require(bool good) {
    if (!good) std::abort();
}

void reframe(Bytes file, const recordio::Record& record) {
    std::vector<std::byte> block(recordio::header_size + recordio::padded(record.payload.size()));
    if (!record.payload.empty())
        std::memcpy(block.data() + recordio::header_size, record.payload.data(), record.payload.size());
    const std::int64_t start = recordio::header_size;
    const auto size = static_cast<std::int64_t>(record.payload.size());
    require(recordio::frame(block, {&start, 1}, {&size, 1}) == block.size());
    require(record.end - record.begin == block.size());
    require(std::memcmp(block.data(), file.data() + record.begin, recordio::header_size + record.payload.size()) == 0);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const Bytes file = std::as_bytes(std::span(data, size));
    const recordio::Scan found = recordio::scan(file, 0, size, size);
    std::uint64_t expected = 0;
    for (const std::int64_t start : found.starts) {
        const recordio::Record record = recordio::record_at(file, static_cast<std::uint64_t>(start));
        require(record.begin == expected && record.end <= size);
        expected = record.end;
        for (const recordio::Join join : {recordio::Join::magic, recordio::Join::plain}) {
            std::vector<std::byte> joined(record.joined_size(join));
            recordio::join_parts(file, record, join, joined);
        }
        if (record.parts == 1) reframe(file, record);
    }
    require(found.next == expected);
    require(found.faulty || found.next == size);
    std::int64_t at = recordio::find(file, 0);
    while (at >= 0) {
        (void)recordio::record_at(file, static_cast<std::uint64_t>(at));
        const std::int64_t next = recordio::find(file, static_cast<std::uint64_t>(at) + 1);
        require(next < 0 || next > at);
        at = next;
    }
    return 0;
}
