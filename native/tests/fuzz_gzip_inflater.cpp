// Any bytes, as GZIP files: nothing is read or written elsewhere, it ends, and neither how large the stretches are nor how the file comes in
// changes what it gives.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "core/gzip_inflater.hpp"

using namespace penstock;

namespace {

struct Found {
    std::vector<std::byte> bytes;
    GzipInflater::State state;
};

Found inflate(Bytes file, std::size_t stretch) {
    GzipInflater inflater(stretch);
    Found found{};
    for (std::size_t at = 0; inflater.state() == GzipInflater::State::going;) {
        // On memory of its own, so that every step outside of it is seen.
        const std::size_t size = std::min(inflater.window(), file.size() - at);
        const std::vector<std::byte> window(file.begin() + static_cast<std::ptrdiff_t>(at), file.begin() + static_cast<std::ptrdiff_t>(at + size));
        const std::size_t used = inflater.inflate(window, at + size == file.size());
        if (used > size || (used == 0 && inflater.parts().empty() && inflater.state() == GzipInflater::State::going)) std::abort();
        for (const Bytes part : inflater.parts()) found.bytes.insert(found.bytes.end(), part.begin(), part.end());
        at += used;
    }
    found.state = inflater.state();
    return found;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
    const Found small = inflate(bytes, 512), large = inflate(bytes, std::size_t{64} << 10);
    const std::size_t both = std::min(small.bytes.size(), large.bytes.size());
    if (!std::equal(small.bytes.begin(), small.bytes.begin() + static_cast<std::ptrdiff_t>(both), large.bytes.begin())) std::abort();
    if (small.state == GzipInflater::State::done && large.state == GzipInflater::State::done && small.bytes != large.bytes) std::abort();
    return 0;
}
