#include "core/riegeli/single.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <new>

#include "core/base/thread_team.hpp"
#include "core/checksum/highway_hash.hpp"
#include "core/engines/zstd/decoder.hpp"
#include "core/engines/zstd/stored.hpp"

namespace headrace::riegeli {
namespace {

constexpr std::size_t together = 4;               // chunks, hashed in parallel
constexpr std::size_t many = 16;                  // chunks for each thread; fewer are shared out in pairs
constexpr std::size_t worth_help = 32 << 10;      // bytes: about ten microseconds of work
constexpr std::uint64_t most_joined = most_large; // data bytes of a chunk that block headers interrupt
constexpr std::uint64_t most_kept = 1 << 20;      // of such data, for which memory is kept
constexpr std::size_t headers_together = 16;      // per stretch of a thread
constexpr std::size_t headers_ahead = 8;          // to prefetch
constexpr std::uint64_t most_ahead = 1024;        // bytes of data; then the hardware prefetcher takes over

// Chunks are at random positions: prefetch the next before reading this one.
void prefetch(Bytes file, std::uint64_t begin, std::uint64_t size) noexcept {
#if defined(__GNUC__) || defined(__clang__)
    constexpr std::uint64_t line = 64;
    if (begin >= file.size()) return;
    for (const std::uint64_t end = begin + std::min(size, file.size() - begin); begin < end; begin += line)
        __builtin_prefetch(file.data() + begin);
#else
    static_cast<void>(file);
    static_cast<void>(begin);
    static_cast<void>(size);
#endif
}

// Whether the chunk's one size, if readable without decompressing, matches its record.
bool size_fits(Part& sizes, std::uint64_t size) {
    if (sizes.codec == Codec::zstd)
        sizes.decoded = zstd_raw_content(sizes.stored, sizes.decoded_size).value_or(Bytes{});
    if (sizes.decoded.empty()) return true;
    Cursor cursor(sizes.decoded);
    return cursor.varint() == size && cursor.done();
}

// Reads up to four chunks at a time, and reuses its memory for the next ones.
class Reader {
  public:
    void read(std::span<Single> singles, bool verify) {
        std::array<Bytes, together> data;
        for (std::size_t i = 0; i < singles.size(); ++i)
            data[i] = data_of(singles[i].file, singles[i].header, joined_[i]);
        if (!verify || are_sound(singles, data))
            for (std::size_t at = 0; at < singles.size(); at += 2)
                decompress(singles.subspan(at, std::min<std::size_t>(2, singles.size() - at)), data.data() + at);
        for (std::vector<std::byte>& room : joined_)
            if (room.size() > most_kept) room = {};
    }

  private:
    // One chunk or two.
    void decompress(std::span<Single> singles, const Bytes* data) {
        std::array<Bytes, 2> frames;
        std::size_t packed = 0;
        for (std::size_t i = 0; i < singles.size(); ++i) {
            frames[i] = frame_of(singles[i], data[i]);
            if (!frames[i].empty()) ++packed;
        }
        std::array<bool, 2> unpacked{};
        if (packed == 2)
            zstd::Decoder::decompress_pair(decoders_, frames, {singles[0].target, singles[1].target}, unpacked);
        else
            for (std::size_t i = 0; i < singles.size(); ++i)
                unpacked[i] = !frames[i].empty() && decoders_[i].decompress(frames[i], singles[i].target);
        for (std::size_t i = 0; i < singles.size(); ++i) {
            if (!unpacked[i]) continue;
            singles[i].record = singles[i].target;
            singles[i].done = true;
        }
    }

    // Empty if joining would take much memory. The hash then does not match, or parsing fails.
    static Bytes data_of(Bytes file, const ChunkHeader& header, std::vector<std::byte>& room) {
        if (header.interrupted()) {
            if (header.data_size > most_joined) return {};
            if (room.size() < header.data_size) room.resize(header.data_size);
        }
        return read_chunk_data(file, header, room);
    }

    static bool are_sound(std::span<const Single> singles, const std::array<Bytes, together>& data) noexcept {
        if (singles.size() == 1) return riegeli_hash(data[0]) == singles[0].header.data_hash;
        std::array<Pieces, together> inputs;
        std::array<std::uint64_t, together> hashes{};
        for (std::size_t i = 0; i < singles.size(); ++i) inputs[i] = {&data[i], 1};
        riegeli_hash_many(std::span(inputs).first(singles.size()), hashes);
        for (std::size_t i = 0; i < singles.size(); ++i)
            if (hashes[i] != singles[i].header.data_hash) return false;
        return true;
    }

    // The frame to decompress. Empty if there is none: the record is ready, or something is wrong.
    static Bytes frame_of(Single& single, Bytes data) {
        SimpleChunk chunk;
        try {
            chunk = parse_simple(data, single.header);
            if (!size_fits(chunk.sizes, single.header.decoded_size)) return {};
        } catch (const FormatError&) {
            return {};
        }
        std::optional<Bytes> content;
        if (chunk.values.codec == Codec::none) content = chunk.values.stored;
        if (chunk.values.codec == Codec::zstd) {
            content = zstd_raw_content(chunk.values.stored, chunk.values.decoded_size);
            if (!content) return chunk.values.stored;
        }
        if (!content) return {};
        single.record = *content;
        if (single.header.interrupted()) {
            std::memcpy(single.target.data(), content->data(), content->size());
            single.record = single.target;
        }
        single.done = true;
        return {};
    }

    std::array<zstd::Decoder, 2> decoders_;
    std::array<std::vector<std::byte>, together> joined_;
};

} // namespace

bool is_usual(const Single& single) noexcept {
    if (single.header.num_records == 0 || single.header.data_begin >= single.file.size()) return false;
    const auto codec = static_cast<Codec>(single.file[single.header.data_begin]);
    return codec == Codec::none || codec == Codec::zstd;
}

namespace {

bool is_readable(const Single& single) noexcept {
    const ChunkHeader& header = single.header;
    if (is_single(header)) return true;
    const bool is_bounded = header.data_size <= most_large && header.decoded_size <= most_ratio * header.data_size;
    return is_bounded && is_single(header, most_large) && is_usual(single);
}

} // namespace

void read_single_headers(std::span<Single> singles, unsigned threads) {
    if (singles.size() == 1) prefetch(singles[0].file, singles[0].begin, most_ahead); // Its data are read next.
    ThreadTeam::shared().run(singles.size(), headers_together, threads, [&](std::size_t i, std::size_t end) {
        for (; i < end; ++i) {
            if (i + headers_ahead < singles.size())
                prefetch(singles[i + headers_ahead].file, singles[i + headers_ahead].begin, 1);
            Single& single = singles[i];
            try {
                single.header = read_chunk_header(single.file, single.begin);
                if (!is_readable(single)) single.header = {};
            } catch (const FormatError&) { // Stays without a record.
            }
        }
    });
}

void read_singles(std::span<Single> singles, bool verify, unsigned threads) {
    std::size_t total = 0;
    for (const Single& single : singles) total += single.target.size();
    if (total < worth_help) threads = 1;
    const std::size_t stretch = singles.size() < many * threads ? 2 : together;
    ThreadTeam::shared().run(singles.size(), stretch, threads, [&](std::size_t at, std::size_t end) {
        try {
            thread_local const auto reader = std::make_unique<Reader>();
            for (; at < end; at += stretch) {
                for (std::size_t next = at + stretch; next < std::min(at + 2 * stretch, singles.size()); ++next) {
                    const ChunkHeader& header = singles[next].header;
                    prefetch(singles[next].file, header.data_begin, std::min(header.data_size, most_ahead));
                }
                reader->read(singles.subspan(at, std::min(stretch, end - at)), verify);
            }
        } catch (const std::bad_alloc&) { // The rest stays undone.
        }
    });
}

} // namespace headrace::riegeli
