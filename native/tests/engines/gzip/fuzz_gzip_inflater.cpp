// Inflates arbitrary bytes, as GZIP files and as deflate data in one. There must be no access out of bounds, the
// inflaters must end, and the result must be zlib's, for every stretch size and for a member as a whole.
#include <algorithm>
#include <cstdlib>
#include <deque>
#include <vector>

#include <zlib.h>

#include "core/engines/gzip/parallel.hpp"
#include "core/engines/gzip/whole.hpp"

using namespace headrace;

namespace {

struct Found {
    std::vector<std::byte> bytes;
    GzipInflater::State state;
};

Found inflate(Bytes file, std::size_t stretch, unsigned threads, std::size_t margin) {
    std::deque<std::vector<std::byte>> parts; // one allocation each: the sanitizers see every access outside
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
        for (const GzipInflater::Piece& piece : inflater.take())
            found.bytes.insert(found.bytes.end(), piece.bytes.begin(), piece.bytes.end());
        parts.pop_front();
    }
    if (inflater.state() == GzipInflater::State::going) std::abort();
    found.state = inflater.state();
    return found;
}

constexpr std::size_t most_bytes = std::size_t{4} << 20;

struct Reference {
    std::vector<std::byte> bytes; // up to the first fault
    bool is_sound = false;        // no fault was found
    bool is_whole = true;         // at most `most_bytes`
};

/// Inflates with zlib: the members of a file (window_bits 31) or bare deflate (-15).
Reference inflate_with_zlib(Bytes file, int window_bits) {
    Reference found;
    std::vector<std::byte> part(std::size_t{64} << 10);
    z_stream stream{};
    if (inflateInit2(&stream, window_bits) != Z_OK) std::abort();
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(file.data()));
    stream.avail_in = static_cast<uInt>(file.size());
    while (true) {
        stream.next_out = reinterpret_cast<Bytef*>(part.data());
        stream.avail_out = static_cast<uInt>(part.size());
        const int state = inflate(&stream, Z_NO_FLUSH);
        found.bytes.insert(found.bytes.end(), part.begin(), part.end() - stream.avail_out);
        if (found.bytes.size() > most_bytes) found.is_whole = false;
        if (state == Z_STREAM_END) {
            found.is_sound = stream.avail_in == 0 || window_bits < 0;
            if (found.is_sound || inflateReset(&stream) != Z_OK) break;
        } else if (state != Z_OK || !found.is_whole) {
            break;
        }
    }
    inflateEnd(&stream);
    return found;
}

/// A one-member file with a matching trailer, which a fuzzer would not find by itself.
std::vector<std::byte> as_file(Bytes compressed) {
    const Reference content = inflate_with_zlib(compressed, -15);
    std::vector<std::byte> file(10);
    file[0] = std::byte{0x1F}, file[1] = std::byte{0x8B}, file[2] = std::byte{8};
    file.insert(file.end(), compressed.begin(), compressed.end());
    const auto sum =
        crc32(0, reinterpret_cast<const Bytef*>(content.bytes.data()), static_cast<uInt>(content.bytes.size()));
    for (const std::uint64_t number : {std::uint64_t{sum}, std::uint64_t{content.bytes.size()}})
        for (unsigned shift = 0; shift < 32; shift += 8) file.push_back(static_cast<std::byte>(number >> shift));
    return file;
}

void must_be_of_the_library(const Found& found, const Reference& wanted) {
    if (!wanted.is_whole) return;
    if (found.bytes.size() > wanted.bytes.size() ||
        !std::equal(found.bytes.begin(), found.bytes.end(), wanted.bytes.begin()))
        std::abort();
    if (found.state == GzipInflater::State::done && (!wanted.is_sound || found.bytes.size() != wanted.bytes.size()))
        std::abort();
}

void check(Bytes file) {
    const Reference wanted = inflate_with_zlib(file, 31);
    must_be_of_the_library(inflate(file, 512, 2, 256), wanted);
    must_be_of_the_library(inflate(file, std::size_t{64} << 10, 1, std::size_t{64} << 10), wanted);
    if (!wanted.is_whole) return;
    const std::vector<std::byte> exact(file.begin(), file.end());
    std::vector<std::byte> out(wanted.bytes.size());
    if (deflate::WholeInflater().inflate(exact, out) && (!wanted.is_sound || out != wanted.bytes)) std::abort();
    std::vector<std::byte> less(out.size() / 2);
    if (deflate::WholeInflater().inflate(exact, less) && !less.empty()) std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
    check(bytes);
    check(as_file(bytes));
    return 0;
}
