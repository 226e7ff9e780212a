// Any bytes, as GZIP files: nothing is read or written elsewhere, it ends, and neither how large the stretches are nor how the file comes in
// changes what it gives.
#include <algorithm>
#include <cstdlib>
#include <deque>
#include <vector>

#include "core/gzip_inflater.hpp"

using namespace penstock;

namespace {

struct Found {
    std::vector<std::byte> bytes;
    GzipInflater::State state;
};

Found inflate(Bytes file, std::size_t stretch, unsigned threads, std::size_t margin) {
    std::deque<std::vector<std::byte>> parts; // each on memory of its own, so that every step outside of it is seen
    GzipInflater inflater(stretch, threads, margin);
    Found found{};
    std::size_t at = 0;
    while (inflater.state() == GzipInflater::State::going && (inflater.has_room() || inflater.waiting() != 0)) {
        while (inflater.has_room()) {
            const bool last = file.size() - at <= inflater.own() + inflater.margin();
            const std::size_t own = last ? file.size() - at : inflater.own();
            const Bytes part = file.subspan(at, last ? own : own + inflater.margin());
            parts.emplace_back(part.begin(), part.end());
            inflater.give(parts.back(), own, last);
            at += own;
        }
        for (const GzipInflater::Piece& piece : inflater.take()) found.bytes.insert(found.bytes.end(), piece.bytes.begin(), piece.bytes.end());
        parts.pop_front();
    }
    if (inflater.state() == GzipInflater::State::going) std::abort();
    found.state = inflater.state();
    return found;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
    const Found small = inflate(bytes, 512, 2, 256), large = inflate(bytes, std::size_t{64} << 10, 1, std::size_t{64} << 10);
    const std::size_t both = std::min(small.bytes.size(), large.bytes.size());
    if (!std::equal(small.bytes.begin(), small.bytes.begin() + static_cast<std::ptrdiff_t>(both), large.bytes.begin())) std::abort();
    if (small.state == GzipInflater::State::done && large.state == GzipInflater::State::done && small.bytes != large.bytes) std::abort();
    return 0;
}
