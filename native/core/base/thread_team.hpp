#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <type_traits>

#include "core/base/mapped_files.hpp"

namespace headrace {

/// Threads that wait for parts of work that one thread cannot do alone in time: some hundred microseconds of it.
/// Whoever calls works, too, and helpers take parts as they come, so that it does no harm when one comes late or not at
/// all.
class Team {
  public:
    /// That of this process. A forked child has its own.
    [[nodiscard]] static Team& shared();

    /// Calls `work(begin, end)` for stretches of `count` items, of `stretch` each, on up to `threads` threads, this one
    /// included, and returns when all are done. Alone, where helpers work for another caller. Where `work` throws, in
    /// whatever thread, some items may be left out, and one of the exceptions is thrown here. Every thread has a region
    /// of the items, of which it takes one stretch after another, so that work may look ahead of its stretch; a thread
    /// that is done with its own takes from those of others.
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

    // Threads write to different ones: each is in a piece of the cache of its own.
    struct alignas(64) Place {
        std::atomic<std::size_t> next{0};
    };

    static constexpr unsigned most_helpers = 15;

    void run_call(Call call, unsigned threads);
    void take_parts(Call& call, unsigned region) noexcept;
    void take_parts_or_throw(const Call& call, unsigned region);
    void help() noexcept;
    [[nodiscard]] bool is_worth_calling() noexcept;
    void wait_for_helpers() noexcept;
    void hire(unsigned helpers);

    std::mutex busy_;         // held by the caller whom helpers work for
    unsigned alone_ = 0;      // calls that are to go without help
    unsigned last_alone_ = 0; // as many as the last time
    std::mutex mutex_;
    std::condition_variable called_;
    Call* call_ = nullptr;
    unsigned wanted_ = 0; // helpers that may still join
    unsigned helpers_ = 0;
    std::atomic<unsigned> number_{0};            // of calls that there were
    std::atomic<unsigned> inside_{0};            // helpers at work
    std::array<Place, most_helpers + 1> places_; // in the regions
};

} // namespace headrace

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace headrace {

/// Which process this is: threads and locks of another one, whose child this is, are of no use here.
[[nodiscard]] inline int process_id() noexcept {
#if defined(__unix__) || defined(__APPLE__)
    return static_cast<int>(getpid());
#else
    return 0;
#endif
}

} // namespace headrace
