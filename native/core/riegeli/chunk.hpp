#pragma once

#include <vector>

#include "core/riegeli/layout.hpp"

namespace headrace::riegeli {

/// The largest content that a chunk, or a compressed part of one, may say that it has. It bounds what a damaged or
/// hostile file can make us reserve; the memory itself is touched only as far as the content really reaches.
inline constexpr std::uint64_t most_decoded_bytes = std::uint64_t{2} << 30;

enum class ChunkType : std::uint8_t {
    none = 0,
    signature = 's',
    metadata = 'm',
    padding = 'p',
    simple = 'r',
    transposed = 't'
};

/// The 40 bytes that a chunk begins with, and where its parts lie in the file.
struct ChunkHeader {
    std::uint64_t begin;
    std::uint64_t data_begin; ///< The first byte of data, behind a block header if there is one.
    std::uint64_t data_size;  ///< Without block headers.
    std::uint64_t data_hash;
    std::uint64_t num_records;
    std::uint64_t decoded_size; ///< Of all records together.
    std::uint64_t end;
    ChunkType type;

    /// Whether block headers lie between the data.
    [[nodiscard]] bool interrupted() const noexcept { return is_interrupted(data_begin, data_size); }
};

/// The chunk that begins at `begin`. Throws FormatError with that offset: `truncated` when header or data reach past
/// the end, `header_checksum`, `structure` when no chunk can begin there.
[[nodiscard]] ChunkHeader read_chunk_header(Bytes file, std::uint64_t begin);

/// Its data: a view of the file, or of `room` when block headers interrupt it.
[[nodiscard]] Bytes read_chunk_data(Bytes file, const ChunkHeader& header, std::span<std::byte> room) noexcept;

/// Throws `payload_checksum` when `found`, the hash of a chunk's data, is not what its header says.
void check_hash(const ChunkHeader& header, std::uint64_t found);

/// How a part of a chunk is compressed.
enum class Codec : std::uint8_t { none = 0, brotli = 'b', snappy = 's', zstd = 'z' };

/// A part of a chunk that may be compressed.
struct Part {
    Codec codec = Codec::none;
    Bytes stored;                   ///< As in the file, without the size before it.
    std::uint64_t decoded_size = 0; ///< What it says that it decodes to.
    Bytes decoded;                  ///< Set once it is.
};

/// The codec of a chunk, from its first byte. Throws `structure` for an unknown one.
[[nodiscard]] Codec read_codec(Cursor& data);

/// A part that takes `stored`. Throws `range` when it says that it decodes to more than it can, or than `most_bytes`.
[[nodiscard]] Part read_part(Codec codec, Bytes stored, std::uint64_t most_bytes = most_decoded_bytes);

/// The two parts of a simple chunk.
struct SimpleChunk {
    Part sizes;  ///< One varint for each record.
    Part values; ///< The records, joined.
};

/// Throws `structure` when the parts do not fit the header, and what `read_part` does.
[[nodiscard]] SimpleChunk parse_simple(Bytes data, const ChunkHeader& header,
                                       std::uint64_t most_bytes = most_decoded_bytes);

/// Appends the records of a simple chunk whose parts are decoded. Throws `structure` when sizes and values do not fit.
/// A chunk of one record needs no sizes: they may be left undecoded then.
void split_simple(const SimpleChunk& chunk, std::uint64_t num_records, std::vector<Bytes>& records);

/// What `scan_chunks` found.
struct ChunkScan {
    std::vector<ChunkHeader> chunks; ///< Sound ones, in order.
    std::uint64_t next = 0;          ///< Where the one after them begins.
    bool faulty = false;             ///< Whether `next` begins a damaged one; `fault` says how.
    FormatError fault{Fault::truncated, 0};
};

/// Hops from chunk to chunk, beginning at `start`, for at most `most` chunks; data is hashed where `verify` says so.
[[nodiscard]] ChunkScan scan_chunks(Bytes file, std::uint64_t start, std::size_t most, bool verify);

/// Where the next chunk at or behind `position` begins: as block headers tell, or nearer, where hopping from one leads
/// to what they tell. The size of the file when there is none. `position` lies behind the beginning of a damaged chunk.
[[nodiscard]] std::uint64_t find_chunk(Bytes file, std::uint64_t position) noexcept;

} // namespace headrace::riegeli
