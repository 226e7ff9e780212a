#pragma once

#include <memory>

#include "core/base/pool.hpp"
#include "core/riegeli/transpose.hpp"

namespace headrace::riegeli {

/// Chunks on their way from a file to records. Decompresses Zstandard itself; other codecs are the caller's work. While
/// `jobs` is not empty, the caller runs all of them and calls `advance`; after that, the records are ready.
///
/// Records are views of the file if nothing had to be decoded or joined, else of memory that this object holds.
class Chunks {
  public:
    /// A part to decompress. Must fill `target` exactly.
    struct Job {
        Codec codec;
        Bytes source;
        std::span<std::byte> target;
        std::size_t chunk; ///< Index of its chunk.
    };

    /// What to read.
    struct Wanted {
        std::span<const std::int64_t> begins;
        std::span<const std::int64_t> counts; ///< Expected number of records per chunk; empty if unknown.
        std::uint64_t most_bytes; ///< Stop before the chunk that would exceed this decoded size, but read at least one.
        bool verify;              ///< Whether to check data hashes.
        std::uint64_t most_decoded = most_decoded_bytes; ///< The largest decoded size accepted for a chunk or a part.
        unsigned threads = 1;                            ///< At most this many, including the caller's.
        std::uint64_t most_own = UINT64_MAX;             ///< Larger Zstandard frames become jobs for a library; 0: all.
    };

    /// Throws FormatError with `record` set to the index of the chunk and `offset` to its start.
    Chunks(std::shared_ptr<Pool> pool, Bytes file, const Wanted& wanted);

    [[nodiscard]] std::size_t size() const noexcept { return chunks_.size(); }
    /// The start of a chunk.
    [[nodiscard]] std::uint64_t begin(std::size_t chunk) const noexcept { return chunks_[chunk].header.begin; }

    [[nodiscard]] const std::vector<Job>& jobs() const noexcept { return jobs_; }

    /// Continues after the jobs are done. Throws as the constructor does.
    void advance();

    /// The records of all chunks, in order.
    [[nodiscard]] const std::vector<Bytes>& records() const noexcept { return records_; }

    /// The codec of the last job; `none` if there was none.
    [[nodiscard]] Codec needed() const noexcept { return needed_; }

    /// Bytes of memory held in addition to the file.
    [[nodiscard]] std::size_t held_bytes() const noexcept { return held_bytes_; }

    /// That memory, which holds the targets of jobs and joined sources.
    [[nodiscard]] const std::vector<std::span<std::byte>>& memory() const noexcept { return memory_; }

  private:
    struct Chunk {
        ChunkHeader header;
        SimpleChunk simple;
        std::unique_ptr<Transposed> transposed;
        bool is_done = false; // The record of the simple chunk is ready.
    };

    enum class Stage : std::uint8_t { opened, headers, parts, done };

    void read_headers(Bytes file, const Wanted& wanted);
    void read_whole(Bytes file, const Wanted& wanted);
    void read_data(Bytes file, const Wanted& wanted);
    static void parse(Chunk& chunk, Bytes data, std::uint64_t most_decoded);
    // The sizes of a one-record chunk only repeat the size of its value. Such a part is `optional` and not worth
    // decompressing.
    void prepare(std::size_t number, Part& part, bool optional = false);
    void start_jobs();
    void finish();
    template <typename Do> void each(Do&& act);
    [[nodiscard]] std::span<std::byte> take(std::size_t size);
    [[nodiscard]] std::vector<std::span<std::byte>> take_each(std::span<const std::uint64_t> sizes); // in one block
    void let_go(); // the last block taken

    std::shared_ptr<Pool> pool_;
    unsigned threads_;
    std::uint64_t most_own_;
    std::vector<Chunk> chunks_;
    std::vector<std::pair<std::size_t, Part*>>
        waiting_; // Parts that need memory and work, with the indices of their chunks.
    std::vector<Job> jobs_;
    std::vector<Pool::Block> blocks_;
    std::vector<std::span<std::byte>> memory_; // The used part of each block.
    std::size_t held_bytes_ = 0;
    std::vector<Bytes> records_;
    Codec needed_ = Codec::none;
    Stage stage_ = Stage::opened;
};

} // namespace headrace::riegeli
