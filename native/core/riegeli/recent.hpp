#pragma once

#include <list>
#include <unordered_map>

#include "core/riegeli/grouped.hpp"

namespace headrace::riegeli {

/// The chunks of a set of files that were read last, by number, up to a bound in bytes. Not thread-safe: callers take
/// turns, but chunks that they have taken out stay valid.
class RecentChunks {
  public:
    explicit RecentChunks(std::size_t most_bytes) : most_bytes_(most_bytes) {}

    /// Chunk `number`, which becomes the most recent one; null if it is not here.
    [[nodiscard]] std::shared_ptr<GroupedChunk> find(std::uint64_t number);

    /// Adds a chunk, replaces it, or measures it again. Chunks that are no longer recent are dropped.
    void keep(std::uint64_t number, std::shared_ptr<GroupedChunk> chunk);

    void drop(std::uint64_t number);

    [[nodiscard]] std::size_t size() const noexcept { return places_.size(); }
    [[nodiscard]] std::size_t held_bytes() const noexcept { return held_bytes_; }

    /// Lets one caller at a time decompress more of a chunk. False if another one does now.
    [[nodiscard]] bool reserve(const GroupedChunk* chunk);
    void release(const GroupedChunk* chunk) noexcept;

  private:
    struct Place {
        std::uint64_t number;
        std::shared_ptr<GroupedChunk> chunk;
        std::size_t bytes;
    };

    static constexpr std::size_t overhead = 160; // bytes of a list node and a table entry

    std::size_t most_bytes_;
    std::size_t held_bytes_ = 0;
    std::list<Place> order_; // the most recent first
    std::unordered_map<std::uint64_t, std::list<Place>::iterator> places_;
    std::vector<const GroupedChunk*> reserved_; // few: one per thread
};

/// A record of a chunk, and where to copy it.
struct RecordCopy {
    std::size_t record;
    std::byte* to;
};

/// Part of a chunk that a caller wants.
struct GroupedPart {
    Bytes file;
    std::uint64_t begin;
    std::uint64_t count; ///< Records in the chunk.
    bool check_hash;
    std::size_t last;                      ///< The last record wanted.
    std::shared_ptr<GroupedChunk> chunk{}; ///< Null before `open_parts`, and after it if the general path must read it.
    bool is_here = false;                  ///< Set by `reach_parts`: `last` and the records before it can be taken.
    /// If there are any, `reach_parts` copies these records and frees what it decompressed.
    std::span<const RecordCopy> copies{};
};

/// Opens the chunks that are null, on up to `threads` threads. Compressed chunks of more than `most_packed` bytes are
/// left.
void open_parts(const std::shared_ptr<Pool>& pool, std::span<GroupedPart> parts, std::uint64_t most_packed,
                unsigned threads);

/// Decompresses chunks as far as wanted, or wholly, on up to `threads` threads.
void reach_parts(std::span<GroupedPart> parts, bool whole, unsigned threads);

} // namespace headrace::riegeli
