#include "core/riegeli/read.hpp"

#include <algorithm>

#include "core/base/thread_team.hpp"
#include "core/checksum/highway_hash.hpp"
#include "core/engines/zstd/decoder.hpp"
#include "core/engines/zstd/stored.hpp"
#include "core/riegeli/single.hpp"

namespace headrace::riegeli {

Chunks::Chunks(std::shared_ptr<Pool> pool, Bytes file, const Wanted& wanted)
    : pool_(std::move(pool)),
      threads_(wanted.threads),
      most_own_(wanted.most_own) {
    read_headers(file, wanted);
    read_whole(file, wanted);
    read_data(file, wanted);
    advance();
}

// Calls `act(number, chunk)` for every chunk, and adds the chunk to errors.
template <typename Do> void Chunks::each(Do&& act) {
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
        try {
            act(i, chunks_[i]);
        } catch (FormatError& error) {
            error.offset = chunks_[i].header.begin;
            error.record = static_cast<std::int64_t>(i);
            throw;
        }
    }
}

namespace {

// The chunks of a batch are at random positions, so prefetch the next headers while reading one.
void prefetch(Bytes file, std::int64_t position) {
#if defined(__GNUC__) || defined(__clang__)
    if (position >= 0 && static_cast<std::uint64_t>(position) < file.size()) __builtin_prefetch(file.data() + position);
#else
    static_cast<void>(file);
    static_cast<void>(position);
#endif
}

constexpr std::size_t ahead = 8;             // in headers
constexpr std::size_t least_singles = 2;     // fewer are not worth a pass of their own
constexpr std::size_t together = 8;          // chunks per stretch of a thread
constexpr std::size_t worth_help = 64 << 10; // bytes: about ten microseconds of hashing or decompressing

std::vector<std::uint64_t> hash_all(const std::vector<Bytes>& data, unsigned threads) {
    std::vector<std::uint64_t> hashes(data.size());
    std::size_t total = 0;
    for (const Bytes& one : data) total += one.size();
    ThreadTeam::shared().run(data.size(), together, total < worth_help ? 1 : threads,
                             [&](std::size_t i, std::size_t end) {
                                 for (; i + 1 < end; i += 2) {
                                     const auto two = riegeli_hash_pair(data[i], data[i + 1]);
                                     hashes[i] = two[0];
                                     hashes[i + 1] = two[1];
                                 }
                                 if (i < end) hashes[i] = riegeli_hash(data[i]);
                             });
    return hashes;
}

// Returns for each part whether it was decompressed. Parts that are not valid Zstandard frames, or that need libzstd,
// are not.
std::vector<std::uint8_t> unpack_all(const std::vector<std::pair<Part*, std::span<std::byte>>>& parts, unsigned threads,
                                     std::uint64_t most_own) {
    std::vector<std::uint8_t> unpacked(parts.size());
    std::size_t total = 0;
    for (const auto& [part, target] : parts) total += target.size();
    ThreadTeam::shared().run(
        parts.size(), together, total < worth_help ? 1 : threads, [&](std::size_t i, std::size_t end) {
            thread_local const auto decoders = std::make_unique<std::array<zstd::Decoder, 2>>();
            const auto is_own = [&](std::size_t k) { return parts[k].second.size() <= most_own; };
            for (; i + 1 < end; i += 2) {
                if (!is_own(i) || !is_own(i + 1)) {
                    for (const std::size_t k : {i, i + 1})
                        unpacked[k] =
                            is_own(k) && decoders->front().decompress(parts[k].first->stored, parts[k].second);
                    continue;
                }
                std::array<bool, 2> done{};
                zstd::Decoder::decompress_pair(*decoders, {parts[i].first->stored, parts[i + 1].first->stored},
                                               {parts[i].second, parts[i + 1].second}, done);
                unpacked[i] = done[0];
                unpacked[i + 1] = done[1];
            }
            if (i < end)
                unpacked[i] = is_own(i) && decoders->front().decompress(parts[i].first->stored, parts[i].second);
        });
    return unpacked;
}

} // namespace

void Chunks::read_headers(Bytes file, const Wanted& wanted) {
    chunks_.reserve(wanted.begins.size());
    std::uint64_t decoded = 0;
    for (std::size_t i = 0; i < wanted.begins.size(); ++i) {
        if (i + ahead < wanted.begins.size()) prefetch(file, wanted.begins[i + ahead]);
        Chunk chunk{};
        try {
            chunk.header = read_chunk_header(file, static_cast<std::uint64_t>(wanted.begins[i]));
            const auto count =
                i < wanted.counts.size() ? static_cast<std::uint64_t>(wanted.counts[i]) : chunk.header.num_records;
            if (chunk.header.num_records != count)
                throw FormatError(Fault::structure, chunk.header.begin, count, chunk.header.num_records);
        } catch (FormatError& error) {
            error.record = static_cast<std::int64_t>(i);
            throw;
        }
        const std::uint64_t size = chunk.header.decoded_size;
        if (i != 0 && (size > wanted.most_bytes || decoded > wanted.most_bytes - size)) break;
        decoded += size;
        chunks_.push_back(std::move(chunk));
    }
}

// Reads chunks of one small record each. Damaged or unusual ones are left to the general path, which reports their
// faults.
void Chunks::read_whole(Bytes file, const Wanted& wanted) {
    const std::uint64_t most = std::min({most_single, wanted.most_own, wanted.most_decoded});
    std::vector<std::size_t> numbers;
    std::vector<std::uint64_t> sizes;
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
        if (!is_single(chunks_[i].header, most)) continue;
        numbers.push_back(i);
        sizes.push_back(chunks_[i].header.decoded_size);
    }
    if (numbers.size() < least_singles) return;
    const std::vector<std::span<std::byte>> rooms = take_each(sizes);
    std::vector<Single> singles;
    singles.reserve(numbers.size());
    for (std::size_t k = 0; k < numbers.size(); ++k)
        singles.push_back({file, chunks_[numbers[k]].header.begin, chunks_[numbers[k]].header, rooms[k], {}});
    read_singles(singles, wanted.verify, threads_);
    bool is_used = false;
    for (std::size_t k = 0; k < singles.size(); ++k) {
        Chunk& chunk = chunks_[numbers[k]];
        chunk.is_done = singles[k].done;
        chunk.simple.values.decoded = singles[k].record;
        is_used = is_used || (singles[k].done && singles[k].record.data() == singles[k].target.data());
    }
    if (!is_used) let_go();
}

void Chunks::read_data(Bytes file, const Wanted& wanted) {
    if (std::ranges::all_of(chunks_, [](const Chunk& chunk) { return chunk.is_done; })) return;
    std::uint64_t joined = 0;
    for (const Chunk& chunk : chunks_)
        if (!chunk.is_done && chunk.header.interrupted()) joined += chunk.header.data_size;
    std::span<std::byte> room = joined == 0 ? std::span<std::byte>{} : take(joined);
    std::vector<Bytes> data;
    data.reserve(chunks_.size());
    for (const Chunk& chunk : chunks_) {
        data.push_back(chunk.is_done ? Bytes{} : read_chunk_data(file, chunk.header, room));
        if (!chunk.is_done && chunk.header.interrupted()) room = room.subspan(chunk.header.data_size);
    }
    std::vector<std::uint64_t> hashes;
    if (wanted.verify) hashes = hash_all(data, threads_);
    each([&](std::size_t i, Chunk& chunk) {
        if (chunk.is_done) return;
        if (wanted.verify) check_hash(chunk.header, hashes[i]);
        parse(chunk, data[i], wanted.most_decoded);
    });
}

void Chunks::parse(Chunk& chunk, Bytes data, std::uint64_t most_decoded) {
    if (chunk.header.type == ChunkType::simple) {
        chunk.simple = parse_simple(data, chunk.header, most_decoded);
    } else if (chunk.header.type == ChunkType::transposed) {
        if (chunk.header.decoded_size > most_decoded)
            throw FormatError(Fault::range, 0, most_decoded, chunk.header.decoded_size);
        chunk.transposed = std::make_unique<Transposed>(data, most_decoded);
    } else {
        throw FormatError(Fault::structure, 0);
    }
}

void Chunks::advance() {
    jobs_.clear();
    while (jobs_.empty() && stage_ != Stage::done) {
        if (stage_ == Stage::opened) {
            each([&](std::size_t i, Chunk& chunk) {
                if (chunk.transposed) {
                    prepare(i, chunk.transposed->header());
                } else {
                    prepare(i, chunk.simple.sizes, chunk.header.num_records == 1);
                    prepare(i, chunk.simple.values);
                }
            });
            stage_ = Stage::headers;
        } else if (stage_ == Stage::headers) {
            each([&](std::size_t i, Chunk& chunk) {
                if (!chunk.transposed) return;
                chunk.transposed->parse_header();
                for (Part& bucket : chunk.transposed->buckets()) prepare(i, bucket);
                prepare(i, chunk.transposed->transitions());
            });
            stage_ = Stage::parts;
        } else {
            finish();
            return;
        }
        start_jobs();
    }
}

void Chunks::prepare(std::size_t number, Part& part, bool optional) {
    if (part.codec == Codec::none || part.decoded_size == 0) return;
    if (part.codec == Codec::zstd && (optional || part.decoded_size <= most_own_)) {
        if (const auto content = zstd_raw_content(part.stored, part.decoded_size)) {
            part.decoded = *content;
            return;
        }
    }
    if (!optional) waiting_.emplace_back(number, &part);
}

void Chunks::start_jobs() {
    std::size_t total = 0;
    for (const auto& [number, part] : waiting_) total += part->decoded_size;
    if (total == 0) return;
    std::span<std::byte> room = take(total);
    std::vector<std::pair<Part*, std::span<std::byte>>> packed;
    packed.reserve(waiting_.size());
    bool has_zstd = false;
    for (const auto& [number, part] : waiting_) {
        packed.emplace_back(part, room.first(part->decoded_size));
        part->decoded = packed.back().second;
        room = room.subspan(part->decoded_size);
        has_zstd = has_zstd || part->codec == Codec::zstd;
    }
    const std::vector<std::uint8_t> unpacked =
        has_zstd ? unpack_all(packed, threads_, most_own_) : std::vector<std::uint8_t>(packed.size());
    for (std::size_t i = 0; i < packed.size(); ++i) {
        if (unpacked[i] != 0) continue;
        const auto& [number, part] = waiting_[i];
        needed_ = part->codec;
        jobs_.push_back({part->codec, part->stored, packed[i].second, number});
    }
    waiting_.clear();
}

void Chunks::finish() {
    std::size_t total = 0;
    for (const Chunk& chunk : chunks_)
        if (chunk.transposed) total += chunk.header.decoded_size;
    records_.reserve(chunks_.size()); // a lower bound
    std::span<std::byte> room = total == 0 ? std::span<std::byte>{} : take(total);
    each([&](std::size_t, Chunk& chunk) {
        if (chunk.transposed) {
            const std::span<std::byte> output = room.first(chunk.header.decoded_size);
            room = room.subspan(chunk.header.decoded_size);
            chunk.transposed->assemble(chunk.header.num_records, output, records_);
            chunk.transposed.reset();
        } else {
            split_simple(chunk.simple, chunk.header.num_records, records_);
        }
    });
    stage_ = Stage::done;
}

std::vector<std::span<std::byte>> Chunks::take_each(std::span<const std::uint64_t> sizes) {
    std::size_t total = 0;
    for (const std::uint64_t size : sizes) total += size;
    std::span<std::byte> room = take(total);
    std::vector<std::span<std::byte>> rooms;
    rooms.reserve(sizes.size());
    for (const std::uint64_t size : sizes) {
        rooms.push_back(room.first(size));
        room = room.subspan(size);
    }
    return rooms;
}

void Chunks::let_go() {
    held_bytes_ -= blocks_.back().capacity();
    blocks_.pop_back();
    memory_.pop_back();
}

std::span<std::byte> Chunks::take(std::size_t size) {
    blocks_.push_back(pool_->take(size));
    held_bytes_ += blocks_.back().capacity();
    memory_.emplace_back(blocks_.back().data(), size);
    return memory_.back();
}

} // namespace headrace::riegeli
