#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace headrace {

/// Memory for batch columns that is used again instead of being given back: a fresh page costs more than filling it.
/// A block is yours from `take` until its `Block` dies; after that the next `take` of its size class may get it.
/// What was not needed for a thousand takings is freed: sizes change while a loader finds its pace. Safe to use from
/// several threads.
class Pool : public std::enable_shared_from_this<Pool> {
  public:
    /// At most `idle_limit` bytes are kept while unused; what comes back beyond that is freed.
    explicit Pool(std::size_t idle_limit) : idle_limit_(idle_limit) {}
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    /// A block of at least `size` bytes, 64-byte aligned, with whatever was in it before.
    class Block {
      public:
        Block() = default;
        Block(std::shared_ptr<Pool> pool, std::byte* data, std::size_t capacity) noexcept
            : pool_(std::move(pool)),
              data_(data),
              capacity_(capacity) {}
        Block(Block&& other) noexcept : pool_(std::move(other.pool_)), data_(other.data_), capacity_(other.capacity_) {
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
    };

    [[nodiscard]] Block take(std::size_t size);

    struct Stats {
        std::size_t idle_bytes; ///< Kept for the next taker.
        std::size_t used_bytes; ///< Out with somebody.
        std::uint64_t taken;    ///< How many blocks were handed out in all.
        std::uint64_t recycled; ///< How many of those had been used before.
    };
    [[nodiscard]] Stats stats() const;

    /// Frees every idle block.
    void clear();

  private:
    // Blocks of one size class that nobody has.
    struct Idle {
        std::vector<std::byte*> blocks; // the one that came back last at the end, and taken first
        std::size_t least = 0;          // how many there were at least since the last sweep: as many are not needed
    };

    void give_back(std::byte* data, std::size_t capacity) noexcept;
    struct Unused {
        std::byte* data;
        std::size_t capacity;
    };
    [[nodiscard]] std::vector<Unused> sweep();

    mutable std::mutex mutex_;
    std::map<std::size_t, Idle> idle_;
    std::size_t idle_limit_;
    std::size_t idle_bytes_ = 0;
    std::size_t used_bytes_ = 0;
    std::uint64_t taken_ = 0;
    std::uint64_t recycled_ = 0;
    std::uint64_t swept_ = 0; // takings up to the last sweep
};

} // namespace headrace
