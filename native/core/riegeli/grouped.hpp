#pragma once

#include <atomic>
#include <memory>

#include "core/base/pool.hpp"
#include "core/engines/zstd/decoder.hpp"
#include "core/riegeli/chunk.hpp"

namespace headrace::riegeli {

/// A chunk of several records that is read only as far as records are wanted. It keeps no view of the file: every call
/// gets the file's bytes. One thread at a time may call `reach` or `load`; meanwhile others may read the records that
/// `has` reports.
class GroupedChunk {
  public:
    /// How to open a chunk.
    struct Check {
        bool hash = true;                       ///< Compare the hash of its data.
        std::uint64_t most_packed = UINT64_MAX; ///< Leave larger compressed chunks to the general path.
    };

    /// Opens the simple chunk at `begin`, which must hold `count` records and be stored without compression or under
    /// Zstandard. Null for any other chunk, and for a damaged one: the general path reads it, or names the fault.
    [[nodiscard]] static std::shared_ptr<GroupedChunk> open(std::shared_ptr<Pool> pool, Bytes file, std::uint64_t begin,
                                                            std::uint64_t count, Check check);

    /// A copy of records that were decoded elsewhere.
    [[nodiscard]] static std::shared_ptr<GroupedChunk> copy_of(const std::shared_ptr<Pool>& pool,
                                                               std::span<const Bytes> records);

    [[nodiscard]] std::size_t count() const noexcept { return ends_.size(); }
    [[nodiscard]] std::size_t size(std::size_t record) const noexcept { return end(record) - start(record); }
    [[nodiscard]] std::uint64_t decoded_size() const noexcept { return decoded_size_; }

    /// Its data in the file, without the block headers between them, and the hash that its header gives for them.
    void add_pieces(Bytes file, std::vector<Bytes>& to) const;
    [[nodiscard]] std::uint64_t data_hash() const noexcept { return data_hash_; }

    /// Where the chunk ends in the file. A shorter file is not the same any more.
    [[nodiscard]] std::uint64_t file_end() const noexcept { return file_end_; }

    /// Whether record `record` can be taken now, from memory or from the same file.
    [[nodiscard]] bool has(std::size_t record) const noexcept {
        return end(record) <= direct_ || end(record) <= ready_.load(std::memory_order_acquire);
    }
    /// Whether all records are in memory, so that the file is not needed.
    [[nodiscard]] bool is_loaded() const noexcept {
        return ready_.load(std::memory_order_acquire) == decoded_size_ &&
               (decoded_size_ == 0 || memory_.data() != nullptr);
    }
    /// Whether reading all of it takes a decompressor.
    [[nodiscard]] bool is_packed() const noexcept { return direct_ != decoded_size_; }

    /// Decompresses up to the end of a record. False if the file does not hold that: see `open`.
    [[nodiscard]] bool reach(Bytes file, std::size_t record);

    /// Frees decompressed bytes. No other thread may hold the chunk. Positions stay known, so `reach` starts again.
    void forget() noexcept;

    /// Brings all records into memory.
    [[nodiscard]] bool load(Bytes file);

    /// A record that `has` reports, as a view of this chunk's memory, or of the file if it is contiguous there.
    /// Otherwise it has no address, and `copy` must be used.
    [[nodiscard]] Bytes view(Bytes file, std::size_t record) const noexcept;

    /// Whether such a view belongs to this chunk's memory.
    [[nodiscard]] bool owns(Bytes view) const noexcept {
        return memory_.data() != nullptr && view.data() >= memory_.data() &&
               view.data() < memory_.data() + decoded_size_;
    }

    /// Copies a record that `has` reports.
    void copy(Bytes file, std::size_t record, std::byte* to) const noexcept;

    /// The memory that this chunk takes, in bytes.
    [[nodiscard]] std::size_t held_bytes() const noexcept;

  private:
    // Bytes of the content that are stored as they are, up to `end` of the content; `at` in the chunk's data.
    struct Stored {
        std::uint64_t end;
        std::uint64_t at;
    };

    explicit GroupedChunk(std::shared_ptr<Pool> pool) noexcept : pool_(std::move(pool)) {}

    [[nodiscard]] std::size_t start(std::size_t record) const noexcept { return record == 0 ? 0 : ends_[record - 1]; }
    [[nodiscard]] std::size_t end(std::size_t record) const noexcept { return ends_[record]; }
    [[nodiscard]] bool parse(Bytes file, std::uint64_t begin, std::uint64_t count, Check check);
    [[nodiscard]] bool parse_sizes(Bytes stored, Codec codec, std::uint64_t count);
    [[nodiscard]] bool parse_values(Bytes file, std::uint64_t at);
    [[nodiscard]] bool find_stored(Bytes file);
    [[nodiscard]] bool read_block(Bytes file, std::uint64_t at, zstd::BlockHeader& header) const noexcept;
    [[nodiscard]] bool unpack(Bytes file, std::uint64_t end);
    [[nodiscard]] bool unpack_block(Bytes file);
    void copy_stored(Bytes file, std::uint64_t from, std::uint64_t size, std::byte* to) const noexcept;
    [[nodiscard]] Bytes data(Bytes file, std::uint64_t at, std::uint64_t size, std::vector<std::byte>& room) const;

    std::shared_ptr<Pool> pool_;
    std::uint64_t data_begin_ = 0; // in the file
    std::uint64_t data_size_ = 0;  // without block headers
    std::uint64_t data_hash_ = 0;
    std::uint64_t file_end_ = 0; // A file that ends earlier has changed.
    std::uint64_t decoded_size_ = 0;
    std::vector<std::uint32_t> ends_; // of the records in the content
    std::vector<Stored> stored_;
    std::uint64_t direct_ = 0; // content that can be copied from the file
    std::uint64_t first_ = 0;  // the first block of the frame, in the data
    std::uint64_t next_ = 0;   // the next one to decompress
    std::size_t most_block_ = 0;
    bool is_whole_ = false; // The last block is done.
    Pool::Block memory_;
    std::atomic<std::uint64_t> ready_ = 0;   // content in memory
    std::unique_ptr<zstd::Decoder> decoder_; // between blocks
};

} // namespace headrace::riegeli
