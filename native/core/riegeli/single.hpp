#pragma once

#include <vector>

#include "core/riegeli/chunk.hpp"

namespace headrace::riegeli {

/// Bytes that the record of such a chunk has at most: they are set aside before the data are looked at.
inline constexpr std::uint64_t most_single = 128 << 10;

/// Whether a chunk is a simple one of one record, of up to `most` bytes, but not of none.
[[nodiscard]] inline bool is_single(const ChunkHeader& header, std::uint64_t most = most_single) noexcept {
    return header.type == ChunkType::simple && header.num_records == 1 && header.decoded_size != 0 &&
           header.decoded_size <= most;
}

/// A simple chunk of one record.
struct Single {
    Bytes file;          ///< The one that it is in.
    std::uint64_t begin; ///< And where.
    ChunkHeader header{};
    std::span<std::byte> target{}; ///< Room for its record: `header.decoded_size` bytes, more than none.
    Bytes record{};                ///< A view of the file or of `target`, where the chunk is `done`.
    bool done = false;
};

/// Reads the headers, on up to `threads` threads. Those that are damaged, or of other chunks than these, say that they
/// have no record.
void read_single_headers(std::span<Single> singles, unsigned threads);

/// Reads, checks and unpacks chunks one by one, so that each is dealt with while it is in the cache, on up to `threads`
/// threads. Those that are damaged, or not of the usual kind, are left undone, and maybe the one that was read together
/// with such a chunk.
void read_singles(std::span<Single> singles, bool verify, unsigned threads);

} // namespace headrace::riegeli
