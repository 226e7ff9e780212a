#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace headrace {

/// Recycled memory for batch columns: a page fault costs more than filling the page. A block belongs to its `Block`;
/// after that, a later `take` of its size, or of a little less, may return it. Blocks that were not needed for a
/// thousand calls of `take`, and for some time, are freed. Thread-safe. In a forked child only its blocks may be used,
/// which are freed: a thread of the parent may have held the lock.
class Pool : public std::enable_shared_from_this<Pool> {
  public:
    using Clock = std::chrono::steady_clock;

    /// Keeps at most `idle_limit` unused bytes, and frees the rest. Calls of `take` also free blocks that were unused
    /// for `kept` to twice `kept`.
    explicit Pool(std::size_t idle_limit, Clock::duration kept = {});
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    /// A block of at least `size` bytes, 64-byte aligned, uninitialised.
    class Block {
      public:
        Block() = default;
        Block(std::shared_ptr<Pool> pool, std::byte* data, std::size_t capacity, std::uint32_t uses = 0) noexcept
            : pool_(std::move(pool)),
              data_(data),
              capacity_(capacity),
              uses_(uses) {}
        Block(Block&& other) noexcept
            : pool_(std::move(other.pool_)),
              data_(other.data_),
              capacity_(other.capacity_),
              uses_(other.uses_) {
            other.data_ = nullptr;
        }
        Block& operator=(Block&& other) noexcept;
        ~Block();

        [[nodiscard]] std::byte* data() const noexcept { return data_; }
        [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

      private:
        std::shared_ptr<Pool> pool_;
        std::byte* data_ = nullptr;
        std::size_t capacity_ = 0;
        std::uint32_t uses_ = 0; // before this one
    };

    /// A block of at least `size` bytes, recycled if possible. Throws std::bad_alloc.
    [[nodiscard]] Block take(std::size_t size);

    struct Stats {
        std::size_t idle_bytes; ///< Unused.
        std::size_t used_bytes; ///< In use.
        std::uint64_t taken;    ///< Blocks handed out so far.
        std::uint64_t recycled; ///< How many of them were recycled.
    };

    /// What it holds now.
    [[nodiscard]] Stats stats() const;

    /// Changes the limit on unused bytes; blocks that are idle now stay.
    void set_idle_limit(std::size_t bytes);

    /// Frees every idle block.
    void clear();

  private:
    struct UsedBlock {
        std::byte* data;
        std::uint32_t uses; // so far
    };

    // Unused blocks of one size class.
    struct Idle {
        std::vector<UsedBlock> blocks; // the last one returned is the first one taken
        std::size_t least = 0;         // the minimum since the last sweep: this many are not needed
    };

    void give_back(std::byte* data, std::size_t capacity, std::uint32_t uses) noexcept;
    struct Unused {
        std::byte* data;
        std::size_t capacity;
    };
    [[nodiscard]] std::vector<Unused> sweep();

    int process_; // that made this
    mutable std::mutex mutex_;
    std::map<std::size_t, Idle> idle_;
    std::size_t idle_limit_;
    std::size_t idle_bytes_ = 0;
    std::size_t used_bytes_ = 0;
    std::uint64_t taken_ = 0;
    std::uint64_t recycled_ = 0;
    Clock::duration kept_;
    std::uint64_t looked_ = 0; // `taken_` when a sweep was last considered
    Clock::time_point swept_ = Clock::now();
};

} // namespace headrace
