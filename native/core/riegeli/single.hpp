#pragma once

#include <vector>

#include "core/riegeli/chunk.hpp"

namespace headrace::riegeli {

/// The largest record of such a chunk. Memory for it is reserved before the data is read.
inline constexpr std::uint64_t most_single = 128 << 10;

/// The largest other record, and the most bytes of it for each byte of its data, so that the file bounds what is
/// reserved.
inline constexpr std::uint64_t most_large = 16 << 20, most_ratio = 64;

/// Whether a chunk is a simple one with a single record of 1 to `most` bytes.
[[nodiscard]] inline bool is_single(const ChunkHeader& header, std::uint64_t most = most_single) noexcept {
    return header.type == ChunkType::simple && header.num_records == 1 && header.decoded_size != 0 &&
           header.decoded_size <= most;
}

/// A simple chunk with a single record.
struct Single {
    Bytes file;          ///< The file that contains it.
    std::uint64_t begin; ///< Its start in that file.
    ChunkHeader header{};
    std::span<std::byte> target{}; ///< Room for its record: `header.decoded_size` bytes, more than none.
    Bytes record{};                ///< A view of the file or of `target`, if `done`.
    bool done = false;
};

/// Reads the headers, on up to `threads` threads. Damaged headers, and those of other chunks, become headers without
/// records; also those of records of more than `most_single` bytes whose codec is unusual.
void read_single_headers(std::span<Single> singles, unsigned threads);

/// Whether `read_singles` can read this chunk, unless it is damaged: the header was read, and the codec is usual.
[[nodiscard]] bool is_usual(const Single& single) noexcept;

/// Reads, checks and decompresses chunks one by one, each while it is in the cache, on up to `threads` threads. Damaged
/// or unusual chunks are left undone; so may be a chunk that was read together with one.
void read_singles(std::span<Single> singles, bool verify, unsigned threads);

} // namespace headrace::riegeli
