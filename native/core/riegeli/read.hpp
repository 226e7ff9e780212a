#pragma once

#include <memory>

#include "core/base/pool.hpp"
#include "core/riegeli/transpose.hpp"

namespace headrace::riegeli {

/// Some chunks on their way from a file to records. Zstandard is decompressed here, everything else is the caller's: as
/// long as `jobs` is not empty, do them all and call `advance`; then the records are there.
///
/// Records are views of the file, where nothing had to be decoded or joined, or of the memory that this holds.
class Chunks {
  public:
    /// One part to decompress: `target` must be filled exactly.
    struct Job {
        Codec codec;
        Bytes source;
        std::span<std::byte> target;
        std::size_t chunk; ///< Which of the chunks it is of.
    };

    /// What is to be opened.
    struct Wanted {
        std::span<const std::int64_t> begins;
        std::span<const std::int64_t> counts; ///< How many records each must have; empty where that is not known.
        std::uint64_t most_bytes; ///< Stop before the chunk with which more would be decoded, but not before the first.
        bool verify;              ///< Whether data are held against their hashes.
        std::uint64_t most_decoded = most_decoded_bytes; ///< The largest content of a chunk or a part that is believed.
        unsigned threads = 1;                            ///< How many may work on it, this one included.
        std::uint64_t most_own = UINT64_MAX;             ///< Larger Zstandard frames become jobs for a library; 0: all.
    };

    /// Throws FormatError with `record` set to the number of the chunk and `offset` to where it begins.
    Chunks(std::shared_ptr<Pool> pool, Bytes file, const Wanted& wanted);

    [[nodiscard]] std::size_t size() const noexcept { return chunks_.size(); }
    /// Where a chunk begins.
    [[nodiscard]] std::uint64_t begin(std::size_t chunk) const noexcept { return chunks_[chunk].header.begin; }

    [[nodiscard]] const std::vector<Job>& jobs() const noexcept { return jobs_; }

    /// Goes on after the jobs were done. Throws as the constructor does.
    void advance();

    /// The records of all chunks, in order.
    [[nodiscard]] const std::vector<Bytes>& records() const noexcept { return records_; }

    /// The codec of the last job that there was; `none` if there was none.
    [[nodiscard]] Codec needed() const noexcept { return needed_; }

    /// Bytes of memory held besides the file.
    [[nodiscard]] std::size_t held_bytes() const noexcept { return held_bytes_; }

    /// That memory: what the targets of jobs, and sources that had to be joined, lie in.
    [[nodiscard]] const std::vector<std::span<std::byte>>& memory() const noexcept { return memory_; }

  private:
    struct Chunk {
        ChunkHeader header;
        SimpleChunk simple;
        std::unique_ptr<Transposed> transposed;
        bool is_done = false; // The record of the simple chunk is there already.
    };

    enum class Stage : std::uint8_t { opened, headers, parts, done };

    void read_headers(Bytes file, const Wanted& wanted);
    void read_whole(Bytes file, const Wanted& wanted);
    void read_data(Bytes file, const Wanted& wanted);
    static void parse(Chunk& chunk, Bytes data, std::uint64_t most_decoded);
    // The one size of one record is the size of its value: such a part is `optional`, and not worth decompressing.
    void prepare(std::size_t number, Part& part, bool optional = false);
    void start_jobs();
    void finish();
    template <typename Do> void each(Do&& act);
    [[nodiscard]] std::span<std::byte> take(std::size_t size);
    [[nodiscard]] std::vector<std::span<std::byte>>
    take_each(std::span<const std::uint64_t> sizes); // in one piece of memory
    void let_go();                                   // of what was taken last

    std::shared_ptr<Pool> pool_;
    unsigned threads_;
    std::uint64_t most_own_;
    std::vector<Chunk> chunks_;
    std::vector<std::pair<std::size_t, Part*>>
        waiting_; // Parts that need memory and work, with the numbers of their chunks.
    std::vector<Job> jobs_;
    std::vector<Pool::Block> blocks_;
    std::vector<std::span<std::byte>> memory_; // What is used of the blocks.
    std::size_t held_bytes_ = 0;
    std::vector<Bytes> records_;
    Codec needed_ = Codec::none;
    Stage stage_ = Stage::opened;
};

} // namespace headrace::riegeli
