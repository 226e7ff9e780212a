#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <type_traits>

#include "core/base/mapped_files.hpp"

namespace headrace {

/// Helper threads for work of some hundred microseconds. The caller works too, and helpers take parts as they arrive,
/// so a helper that is late or missing does no harm.
class ThreadTeam {
  public:
    /// The team of this process. A forked child has its own.
    [[nodiscard]] static ThreadTeam& shared();

    /// Calls `work(begin, end)` for all of `count` items, `stretch` at a time, on up to `threads` threads including
    /// this one, and returns when all are done. Works alone while the helpers serve another caller. If `work` throws in
    /// any thread, some items may be left out, and one of the exceptions is thrown here. Each thread takes the
    /// stretches of one region in order, so that work may prefetch ahead; when its region is done, it takes from the
    /// others.
    template <typename Work> void run(std::size_t count, std::size_t stretch, unsigned threads, Work&& work) {
        const auto call = [](void* context, std::size_t begin, std::size_t end) {
            (*static_cast<std::remove_reference_t<Work>*>(context))(begin, end);
        };
        run_call({call, &work, count, stretch, 1, GuardedRead::current(), nullptr}, threads);
    }

  private:
    struct Call {
        void (*work)(void*, std::size_t, std::size_t);
        void* context;
        std::size_t count;
        std::size_t stretch;
        unsigned regions;
        GuardedRead* guard;         // of the caller
        std::exception_ptr failure; // Guarded by the mutex.

        [[nodiscard]] std::size_t parts() const noexcept { return stretch == 0 ? 1 : (count + stretch - 1) / stretch; }
        [[nodiscard]] std::size_t begin_of(unsigned region) const noexcept {
            return std::min(count, parts() * region / regions * stretch);
        }
    };

    // Each thread writes its own, so each has its own cache line.
    struct alignas(64) Counter {
        std::atomic<std::size_t> next{0};
    };

    static constexpr unsigned most_helpers = 15;

    void run_call(Call call, unsigned threads);
    std::size_t take_parts(Call& call, unsigned region) noexcept; // Returns how many.
    std::size_t take_parts_or_throw(const Call& call, unsigned region);
    void run_helper() noexcept;
    [[nodiscard]] bool should_use_helpers() noexcept;
    void wait_for_helpers(std::chrono::steady_clock::duration patience) noexcept;
    void ensure_threads(unsigned helpers);

    std::mutex caller_;          // held by the caller that uses the helpers
    unsigned calls_to_skip_ = 0; // calls left to run without helpers
    unsigned backoff_ = 0;       // how many calls were skipped last time
    std::mutex mutex_;
    std::condition_variable called_;
    Call* call_ = nullptr;
    unsigned open_seats_ = 0; // how many more helpers may join
    unsigned helpers_ = 0;
    std::atomic<unsigned> call_number_{0};           // of calls so far
    std::atomic<unsigned> working_{0};               // helpers inside a call
    std::array<Counter, most_helpers + 1> counters_; // the next item of each region
};

/// Identifies the process: threads and locks of the parent are unusable in a forked child. Costs a read of memory, no
/// system call.
[[nodiscard]] int process_id() noexcept;

} // namespace headrace
