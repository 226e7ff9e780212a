#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>

#include "core/base/mapped_files.hpp"

namespace headrace {

/// A loop over items of some hundred microseconds or more, in any order. While it runs, threads that would wait for its
/// result may join it, so that no core is idle at the end of an epoch of large batches. Nothing starts a thread here,
/// and a loop that no other thread joins costs nothing extra.
class SharedLoop {
  public:
    using Clock = std::chrono::steady_clock;

    /// The items that are left, for one thread.
    class Items {
      public:
        Items(SharedLoop& loop, std::optional<Clock::time_point> until) noexcept : loop_(loop), until_(until) {}

        /// An item that no thread has begun, or nothing: none is left, or this thread has joined for long enough.
        [[nodiscard]] std::optional<std::size_t> next() noexcept;

      private:
        friend class SharedLoop;
        SharedLoop& loop_;
        std::optional<Clock::time_point> until_;
        std::size_t latest_ = 0;
        bool has_begun_ = false;
    };

    /// What one thread does. Several may run at once.
    using Work = std::function<void(Items&)>;

    /// Calls `work` here, and in each thread that joins. Returns when all items are done. Throws the exception of the
    /// first of the items that failed; then later ones may be left out.
    static void run(std::size_t count, const Work& work);

    /// Joins a loop of another thread of this process for about this long, or for one item if that takes longer.
    /// Returns false if no loop has items left.
    static bool join(Clock::duration most);

    /// Whether there may be a loop to join.
    [[nodiscard]] static bool is_any_shared() noexcept;

  private:
    explicit SharedLoop(std::size_t count, const Work& work) noexcept : count_(count), work_(work) {}

    void take_part(std::optional<Clock::time_point> until) noexcept;
    [[nodiscard]] bool has_items() const noexcept { return next_.load(std::memory_order_relaxed) < count_; }

    const std::size_t count_;
    const Work& work_;
    std::atomic<std::size_t> next_{0};
    GuardedRead* const guard_ = GuardedRead::current();
    std::mutex failed_;
    std::size_t failed_item_ = 0;
    std::exception_ptr failure_;
};

} // namespace headrace
