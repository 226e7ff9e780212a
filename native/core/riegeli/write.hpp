#pragma once

#include <vector>

#include "core/riegeli/chunk.hpp"

namespace headrace::riegeli {

/// A chunk to write: its data are these pieces, joined.
struct ChunkToWrite {
    ChunkType type = ChunkType::simple;
    std::uint64_t num_records = 0;
    std::uint64_t decoded_size = 0;
    std::vector<Bytes> pieces;

    [[nodiscard]] std::uint64_t data_size() const noexcept;
    /// Where it ends if it begins at `begin`.
    [[nodiscard]] std::uint64_t end(std::uint64_t begin) const noexcept;
};

/// Writes the bytes of a file from `begin` up to `chunk.end(begin)`: header, data, block headers and what is left free.
void write_chunk(const ChunkToWrite& chunk, std::uint64_t begin, std::byte* to);

/// Where a padding chunk that begins at `begin` ends: at the next block boundary, or at the one behind it where a
/// header has no room. On a boundary there is nothing to pad.
[[nodiscard]] std::uint64_t padding_end(std::uint64_t begin) noexcept;

/// Writes a padding chunk from `begin` up to `padding_end(begin)`.
void write_padding(std::uint64_t begin, std::byte* to);

/// What stands before the values in simple chunks, one for each: codec, sizes, and the size of the values.
class SimplePrefixes {
  public:
    explicit SimplePrefixes(Codec codec) : codec_(codec) {}

    /// The prefix of a chunk of records of these `sizes`. `packed_sizes` are the sizes compressed; without it, a single
    /// record under Zstandard gets the frame that the compressor would make, and under no codec they stand as they are.
    void add(std::span<const std::int64_t> sizes, const Bytes* packed_sizes);

    /// Prefix number `i`. Valid until the next `add`.
    [[nodiscard]] Bytes operator[](std::size_t i) const noexcept {
        return Bytes(bytes_).subspan(ends_[i], ends_[i + 1] - ends_[i]);
    }

  private:
    Codec codec_;
    std::vector<std::byte> bytes_;
    std::vector<std::byte> sizes_;
    std::vector<std::size_t> ends_ = {0};
};

/// One varint for each size, as simple chunks hold them.
[[nodiscard]] std::vector<std::byte> encode_sizes(std::span<const std::int64_t> sizes);

} // namespace headrace::riegeli
