#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <type_traits>

namespace penstock {

/// Threads that wait for parts of work that one thread cannot do alone in time: some hundred microseconds of it. Whoever calls works,
/// too, and helpers take parts as they come, so that it does no harm when one comes late or not at all.
class Team {
  public:
    /// That of this process. A forked child has its own.
    [[nodiscard]] static Team& shared();

    /// Calls `work(begin, end)` for stretches of `count` items, of `stretch` each, on up to `threads` threads, this one included, and
    /// returns when all are done. Alone, where helpers work for another caller. `work` must not throw.
    template <typename Work> void run(std::size_t count, std::size_t stretch, unsigned threads, Work&& work) {
        const auto call = [](void* context, std::size_t begin, std::size_t end) { (*static_cast<std::remove_reference_t<Work>*>(context))(begin, end); };
        run_call({call, &work, count, stretch}, threads);
    }

  private:
    struct Call {
        void (*work)(void*, std::size_t, std::size_t);
        void* context;
        std::size_t count;
        std::size_t stretch;
    };

    void run_call(const Call& call, unsigned threads);
    void take_parts(const Call& call) noexcept;
    void help() noexcept;
    [[nodiscard]] bool is_worth_calling() noexcept;
    void wait_for_helpers() noexcept;
    void hire(unsigned helpers);

    std::mutex busy_;      // held by the caller whom helpers work for
    unsigned alone_ = 0;      // calls that are to go without help
    unsigned last_alone_ = 0; // as many as the last time
    std::mutex mutex_;
    std::condition_variable called_;
    const Call* call_ = nullptr;
    unsigned wanted_ = 0; // helpers that may still join
    unsigned helpers_ = 0;
    std::atomic<unsigned> number_{0}; // of calls that there were
    std::atomic<unsigned> inside_{0}; // helpers at work
    std::atomic<std::size_t> next_{0};
};

} // namespace penstock
