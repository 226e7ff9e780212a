#include "core/riegeli/chunk.hpp"

#include <algorithm>
#include <array>

#include "core/checksum/highway_hash.hpp"

namespace headrace::riegeli {
namespace {

constexpr std::uint64_t most_zstd_block = 128 << 10; // per four bytes or more
constexpr std::uint64_t most_snappy_ratio = 22;      // three bytes copy up to 64

// What valid block headers reveal about chunks from a position in a damaged one on.
struct Sighted {
    std::uint64_t from;  // The damaged chunk extends at least to here.
    std::uint64_t known; // A chunk begins here; the file size if none is known.
};

Sighted look_ahead(Bytes file, std::uint64_t position) noexcept {
    std::uint64_t from = position;
    for (std::uint64_t boundary = next_boundary(position); boundary < file.size(); boundary += block_size) {
        const auto header = read_block_header(file, boundary);
        if (!header) continue;
        if (header->previous_chunk <= boundary - position) return {from, boundary - header->previous_chunk};
        if (header->next_chunk < file.size() - boundary)
            return {boundary + header->next_chunk, boundary + header->next_chunk};
        from = boundary + 1;
    }
    return {from, file.size()};
}

bool begins_chunk(Bytes file, std::uint64_t position) noexcept {
    if (!may_begin_chunk(position) || end_with_headers(position, chunk_header_size) > file.size()) return false;
    std::array<std::byte, chunk_header_size> header;
    copy_without_headers(file, position, chunk_header_size, header.data());
    return load_le<std::uint64_t>(header.data()) == riegeli_hash({header.data() + 8, chunk_header_size - 8});
}

// Whether a chunk begins at `position` and following chunks end exactly at `target` (or in damage, if `target` is the
// end of the file).
bool leads_to(Bytes file, std::uint64_t position, std::uint64_t target) noexcept {
    if (!begins_chunk(file, position)) return false;
    try {
        while (position < target) position = read_chunk_header(file, position).end;
    } catch (const FormatError&) {
        return target == file.size();
    }
    return position == target;
}

} // namespace

void check_decoded_size(Codec codec, std::uint64_t stored, std::uint64_t decoded_size, std::uint64_t most_bytes) {
    std::uint64_t limit = most_bytes; // Brotli: its ratio has no bound
    if (codec == Codec::zstd) limit = std::min(limit, (stored / 4 + 1) * most_zstd_block);
    if (codec == Codec::snappy) limit = std::min(limit, stored * most_snappy_ratio);
    if (decoded_size > limit) throw FormatError(Fault::range, 0, limit, decoded_size);
}

ChunkHeader read_chunk_header(Bytes file, std::uint64_t begin) {
    if (begin > file.size() || file.size() > most_bytes)
        throw FormatError(Fault::truncated, begin, chunk_header_size, 0);
    if (!may_begin_chunk(begin)) throw FormatError(Fault::structure, begin);
    const std::uint64_t left = file.size() - begin;
    const std::uint64_t header_end = end_with_headers(begin, chunk_header_size);
    if (header_end > file.size()) throw FormatError(Fault::truncated, begin, header_end - begin, left);

    std::array<std::byte, chunk_header_size> copy; // Copied, so that it cannot change after it is hashed.
    const std::uint64_t first = behind_block_header(begin);
    if (is_interrupted(first, chunk_header_size)) copy_without_headers(file, begin, chunk_header_size, copy.data());
    else std::memcpy(copy.data(), file.data() + first, chunk_header_size);
    const std::byte* const at = copy.data();
    const auto stored_hash = load_le<std::uint64_t>(at);
    const std::uint64_t hash = riegeli_hash({at + 8, chunk_header_size - 8});
    if (hash != stored_hash) throw FormatError(Fault::header_checksum, begin, stored_hash, hash);

    const auto kind = load_le<std::uint64_t>(at + 24);
    ChunkHeader header{.begin = begin,
                       .data_begin = behind_block_header(header_end),
                       .data_size = load_le<std::uint64_t>(at + 8),
                       .data_hash = load_le<std::uint64_t>(at + 16),
                       .num_records = kind >> 8,
                       .decoded_size = load_le<std::uint64_t>(at + 32),
                       .end = 0,
                       .type = static_cast<ChunkType>(kind & 0xFF)};
    if (header.data_size <= most_bytes) header.end = chunk_end(begin, header.data_size, header.num_records);
    // Every record has a position of its own, so this bounds their number too.
    if (header.end == 0 || header.end > file.size())
        throw FormatError(Fault::truncated, begin, chunk_header_size + header.data_size, left);
    return header;
}

Bytes read_chunk_data(Bytes file, const ChunkHeader& header, std::span<std::byte> room) noexcept {
    if (header.data_size == 0) return {};
    if (!header.interrupted()) return file.subspan(header.data_begin, header.data_size);
    copy_without_headers(file, header.data_begin, header.data_size, room.data());
    return room.first(header.data_size);
}

void check_hash(const ChunkHeader& header, std::uint64_t found) {
    if (found != header.data_hash) throw FormatError(Fault::payload_checksum, header.begin, header.data_hash, found);
}

Codec read_codec(Cursor& data) {
    const auto codec = static_cast<Codec>(data.le<std::uint8_t>());
    switch (codec) {
    case Codec::none:
    case Codec::brotli:
    case Codec::snappy:
    case Codec::zstd: return codec;
    }
    throw FormatError(Fault::structure, data.offset());
}

Part read_part(Codec codec, Bytes stored, std::uint64_t most_bytes) {
    if (codec == Codec::none) return {codec, stored, stored.size(), stored};
    Cursor cursor(stored);
    const std::uint64_t decoded_size = cursor.varint();
    const Bytes stream = cursor.take(cursor.remaining());
    check_decoded_size(codec, stream.size(), decoded_size, most_bytes);
    return {codec, stream, decoded_size, {}};
}

SimpleChunk parse_simple(Bytes data, const ChunkHeader& header, std::uint64_t most_bytes) {
    Cursor cursor(data);
    const Codec codec = read_codec(cursor);
    const std::uint64_t sizes_size = cursor.varint();
    SimpleChunk chunk;
    chunk.sizes = read_part(codec, cursor.take(sizes_size), most_bytes);
    chunk.values = read_part(codec, cursor.take(cursor.remaining()), most_bytes);
    // A size takes one to ten bytes.
    const bool fits = chunk.values.decoded_size == header.decoded_size &&
                      header.num_records <= chunk.sizes.decoded_size &&
                      chunk.sizes.decoded_size <= header.num_records * 10;
    if (!fits) throw FormatError(Fault::structure, header.begin);
    return chunk;
}

void split_simple(const SimpleChunk& chunk, std::uint64_t num_records, std::vector<Bytes>& records) {
    if (num_records == 1 && chunk.sizes.decoded.empty()) {
        records.push_back(chunk.values.decoded);
        return;
    }
    Cursor sizes(chunk.sizes.decoded);
    Cursor values(chunk.values.decoded);
    if (num_records > records.capacity() - records.size())
        records.reserve(std::max<std::size_t>(records.size() + num_records, records.size() * 2));
    for (std::uint64_t i = 0; i < num_records; ++i) records.push_back(values.take(sizes.varint()));
    if (!sizes.done() || !values.done()) throw FormatError(Fault::structure, 0);
}

ChunkScan scan_chunks(Bytes file, std::uint64_t start, std::size_t most, bool verify) {
    ChunkScan scan;
    scan.next = start;
    std::vector<std::byte> room;
    try {
        while (scan.next < file.size() && scan.chunks.size() < most) {
            const ChunkHeader header = read_chunk_header(file, scan.next);
            if (verify) {
                if (header.interrupted() && room.size() < header.data_size) room.resize(header.data_size);
                check_hash(header, riegeli_hash(read_chunk_data(file, header, room)));
            }
            scan.chunks.push_back(header);
            scan.next = header.end;
        }
    } catch (const FormatError& error) {
        scan.faulty = true;
        scan.fault = error;
    }
    return scan;
}

std::uint64_t find_chunk(Bytes file, std::uint64_t position) noexcept {
    const Sighted sighted = look_ahead(file, position);
    // A nearer chunk counts only if following ones lead to the known one: a record may itself contain chunks.
    for (std::uint64_t candidate = sighted.from; candidate < sighted.known; ++candidate)
        if (leads_to(file, candidate, sighted.known)) return candidate;
    return sighted.known;
}

} // namespace headrace::riegeli
