#pragma once

#include <vector>

#include "core/riegeli/layout.hpp"

namespace headrace::riegeli {

/// The largest decoded size accepted for a chunk or a compressed part. Bounds the memory that a damaged or hostile file
/// can make us reserve. Only pages that are really filled are touched.
inline constexpr std::uint64_t most_decoded_bytes = std::uint64_t{2} << 30;

enum class ChunkType : std::uint8_t {
    none = 0,
    signature = 's',
    metadata = 'm',
    padding = 'p',
    simple = 'r',
    transposed = 't'
};

/// The 40-byte header of a chunk, and where the chunk's parts are in the file.
struct ChunkHeader {
    std::uint64_t begin;
    std::uint64_t data_begin; ///< The first byte of data, after a block header if there is one.
    std::uint64_t data_size;  ///< Excluding block headers.
    std::uint64_t data_hash;
    std::uint64_t num_records;
    std::uint64_t decoded_size; ///< Total size of all records.
    std::uint64_t end;
    ChunkType type;

    /// Whether block headers interrupt the data.
    [[nodiscard]] bool interrupted() const noexcept { return is_interrupted(data_begin, data_size); }
};

/// Reads the header of the chunk at `begin`. Throws FormatError with that offset: `truncated` if header or data extend
/// past the end, `header_checksum`, `structure` if no chunk can begin there.
[[nodiscard]] ChunkHeader read_chunk_header(Bytes file, std::uint64_t begin);

/// The chunk's data: a view of the file, or of `room` if block headers interrupt it.
[[nodiscard]] Bytes read_chunk_data(Bytes file, const ChunkHeader& header, std::span<std::byte> room) noexcept;

/// Throws `payload_checksum` if `found`, the hash of a chunk's data, differs from the one in its header.
void check_hash(const ChunkHeader& header, std::uint64_t found);

/// How a part of a chunk is compressed.
enum class Codec : std::uint8_t { none = 0, brotli = 'b', snappy = 's', zstd = 'z' };

/// A part of a chunk, possibly compressed.
struct Part {
    Codec codec = Codec::none;
    Bytes stored;                   ///< As in the file, without the size in front.
    std::uint64_t decoded_size = 0; ///< The declared size.
    Bytes decoded;                  ///< Set once decoded.
};

/// Throws `range` if `stored` compressed bytes cannot decode to `decoded_size`, or if that is more than `most_bytes`.
void check_decoded_size(Codec codec, std::uint64_t stored, std::uint64_t decoded_size, std::uint64_t most_bytes);

/// The codec of a chunk, from its first byte. Throws `structure` for an unknown one.
[[nodiscard]] Codec read_codec(Cursor& data);

/// A part with the bytes `stored`. Throws `range` if its declared size is more than they can decode to, or more than
/// `most_bytes`.
[[nodiscard]] Part read_part(Codec codec, Bytes stored, std::uint64_t most_bytes = most_decoded_bytes);

/// The two parts of a simple chunk.
struct SimpleChunk {
    Part sizes;  ///< One varint per record.
    Part values; ///< The records, concatenated.
};

/// Throws `structure` if the parts do not match the header, and whatever `read_part` throws.
[[nodiscard]] SimpleChunk parse_simple(Bytes data, const ChunkHeader& header,
                                       std::uint64_t most_bytes = most_decoded_bytes);

/// Appends the records of a simple chunk whose parts are decoded. Throws `structure` if sizes and values do not match.
/// A chunk of one record does not need its sizes, which may be left undecoded.
void split_simple(const SimpleChunk& chunk, std::uint64_t num_records, std::vector<Bytes>& records);

/// The result of `scan_chunks`.
struct ChunkScan {
    std::vector<ChunkHeader> chunks; ///< Valid ones, in order.
    std::uint64_t next = 0;          ///< Where the one after them begins.
    bool faulty = false;             ///< Whether `next` begins a damaged chunk; see `fault`.
    FormatError fault{Fault::truncated, 0};
};

/// Collects chunks from `start` on, at most `most` of them. Checks data hashes if `verify` is set.
[[nodiscard]] ChunkScan scan_chunks(Bytes file, std::uint64_t start, std::size_t most, bool verify);

/// The start of the next chunk at or after `position`, which is after the start of a damaged chunk; the file size if
/// there is none. Uses block headers, or a nearer chunk if the ones after it lead to the position that the headers
/// give.
[[nodiscard]] std::uint64_t find_chunk(Bytes file, std::uint64_t position) noexcept;

} // namespace headrace::riegeli
