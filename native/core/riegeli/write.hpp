#pragma once

#include <vector>

#include "core/riegeli/chunk.hpp"

namespace headrace::riegeli {

/// A chunk to write. Its data is the concatenation of these pieces.
struct ChunkToWrite {
    ChunkType type = ChunkType::simple;
    std::uint64_t num_records = 0;
    std::uint64_t decoded_size = 0;
    std::vector<Bytes> pieces;

    [[nodiscard]] std::uint64_t data_size() const noexcept;
    /// Where the chunk ends if it begins at `begin`.
    [[nodiscard]] std::uint64_t end(std::uint64_t begin) const noexcept;
};

/// Writes the file's bytes from `begin` up to `chunk.end(begin)`: header, data, block headers and free space.
void write_chunk(const ChunkToWrite& chunk, std::uint64_t begin, std::byte* to);

/// Where a padding chunk that begins at `begin` ends: at the next block boundary, or one later if a header does not fit
/// before it. On a boundary, no padding is needed.
[[nodiscard]] std::uint64_t padding_end(std::uint64_t begin) noexcept;

/// Writes a padding chunk from `begin` up to `padding_end(begin)`.
void write_padding(std::uint64_t begin, std::byte* to);

/// What precedes the values in simple chunks: codec, sizes, and the size of the values. One prefix per chunk.
class SimplePrefixes {
  public:
    explicit SimplePrefixes(Codec codec) : codec_(codec) {}

    /// Adds the prefix of a chunk of records of these `sizes`. `packed_sizes` are the compressed sizes. Without them, a
    /// single record gets the frame that a compressor would write under Zstandard; without a codec, sizes are stored as
    /// they are.
    void add(std::span<const std::int64_t> sizes, const Bytes* packed_sizes);

    /// Prefix `i`. Valid until the next `add`.
    [[nodiscard]] Bytes operator[](std::size_t i) const noexcept {
        return Bytes(bytes_).subspan(ends_[i], ends_[i + 1] - ends_[i]);
    }

  private:
    Codec codec_;
    std::vector<std::byte> bytes_;
    std::vector<std::byte> sizes_;
    std::vector<std::size_t> ends_ = {0};
};

/// One varint per size, as in simple chunks.
[[nodiscard]] std::vector<std::byte> encode_sizes(std::span<const std::int64_t> sizes);

} // namespace headrace::riegeli
