#pragma once

#include <vector>

#include "core/riegeli_chunk.hpp"

namespace penstock::riegeli {

/// A simple chunk of one record.
struct Single {
    ChunkHeader header;
    std::span<std::byte> target; ///< Room for its record: `header.decoded_size` bytes, more than none.
    Bytes record{};              ///< A view of the file or of `target`, where the chunk is `done`.
    bool done = false;
};

/// Reads, checks and unpacks chunks one by one, so that each is dealt with while it is in the cache, on up to `threads` threads. Those
/// that are damaged, or not of the usual kind, are left undone.
void read_singles(Bytes file, std::span<Single> singles, bool verify, unsigned threads);

} // namespace penstock::riegeli
