// Scans arbitrary bytes. Scanned records must be valid, records after a fault must be found again, and framing the
// payloads must restore the bytes.
#include <cstdlib>

#include "core/framing/tfrecord.hpp"

using namespace headrace;

namespace {

// Reads at every offset without checking lengths: the result is a payload inside the bytes, or a fault.
void read_from_anywhere(Bytes file) {
    for (std::int64_t at = -1; at < 64; ++at) {
        try {
            const Bytes payload = tfrecord::gather({&file, 1}, {}, {&at, 1}, tfrecord::Checks::bounds).front();
            if (payload.data() < file.data() + at ||
                payload.data() + payload.size() + tfrecord::footer_size > file.data() + file.size())
                std::abort();
        } catch (const FormatError& error) {
            if (error.fault != Fault::truncated || error.record != 0) std::abort();
        }
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const Bytes file(reinterpret_cast<const std::byte*>(data), size);
    read_from_anywhere(file);
    std::uint64_t at = 0;
    while (at < size) {
        const tfrecord::Scan found = tfrecord::scan(file, at, size, true, 1000);
        for (const std::int64_t start : found.starts) {
            const Bytes payload = tfrecord::payload_at(file, static_cast<std::uint64_t>(start), tfrecord::Checks::all);
            std::vector<std::byte> block(payload.size() + tfrecord::overhead);
            if (!payload.empty()) std::memcpy(block.data() + tfrecord::header_size, payload.data(), payload.size());
            const std::int64_t place = tfrecord::header_size;
            const auto length = static_cast<std::int64_t>(payload.size());
            tfrecord::frame(block, {&place, 1}, {&length, 1});
            if (std::memcmp(block.data(), data + start, block.size()) != 0) std::abort();
        }
        if (!found.faulty) {
            if (found.next == at) break; // no further record
            at = found.next;
            continue;
        }
        const std::int64_t next = tfrecord::find(file, found.next);
        if (next < 0) break;
        if (static_cast<std::uint64_t>(next) == found.next) std::abort(); // a fault at a valid record
        at = static_cast<std::uint64_t>(next);
    }
    return 0;
}
