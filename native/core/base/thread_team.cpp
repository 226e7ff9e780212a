#include "core/base/thread_team.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#include <unistd.h>
#endif
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <immintrin.h>
#endif

namespace headrace {
namespace {

// Helpers spin between calls, because waking one takes as long as its share of the work. They spin longer when the last
// call came soon.
constexpr auto spin = std::chrono::microseconds(50), spin_in_series = std::chrono::microseconds(300);
constexpr auto too_long = std::chrono::microseconds(200);
constexpr unsigned least_backoff = 4, most_backoff = 1024; // calls

void pause() noexcept {
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    _mm_pause();
#else
    std::this_thread::yield();
#endif
}

std::atomic<ThreadTeam*> team{nullptr}; // Never deleted: its helpers use it until the process ends.

std::atomic<int> known_process{0};

} // namespace

int process_id() noexcept {
#if defined(__unix__) || defined(__APPLE__)
    if (const int known = known_process.load(std::memory_order_relaxed); known != 0) return known;
    [[maybe_unused]] static const int registered =
        pthread_atfork(nullptr, nullptr, [] { known_process.store(0, std::memory_order_relaxed); });
    const auto id = static_cast<int>(getpid());
    known_process.store(id, std::memory_order_relaxed);
    return id;
#else
    return 0;
#endif
}

ThreadTeam& ThreadTeam::shared() {
    if (ThreadTeam* const found = team.load(std::memory_order_acquire)) return *found;
#if defined(__unix__) || defined(__APPLE__)
    [[maybe_unused]] static const int registered =
        pthread_atfork(nullptr, nullptr, [] { team.store(nullptr, std::memory_order_release); });
#endif
    auto made = std::make_unique<ThreadTeam>();
    ThreadTeam* none = nullptr;
    if (team.compare_exchange_strong(none, made.get(), std::memory_order_acq_rel)) return *made.release();
    return *none;
}

void ThreadTeam::run_call(Call call, unsigned threads) {
    const std::size_t parts = call.parts();
    const auto helpers = static_cast<unsigned>(
        std::min<std::size_t>({threads == 0 ? 0 : threads - 1, parts == 0 ? 0 : parts - 1, most_helpers}));
    std::unique_lock mine(caller_, std::defer_lock);
    if (helpers == 0 || !mine.try_lock() || !should_use_helpers()) {
        if (call.count != 0) call.work(call.context, 0, call.count);
        return;
    }
    {
        const std::scoped_lock lock(mutex_);
        ensure_threads(helpers);
        call.regions = helpers + 1;
        for (unsigned region = 0; region < call.regions; ++region)
            counters_[region].next.store(call.begin_of(region), std::memory_order_relaxed);
        call_ = &call;
        open_seats_ = helpers;
        call_number_.fetch_add(1, std::memory_order_release);
    }
    called_.notify_all();
    const auto begun = std::chrono::steady_clock::now();
    const std::size_t taken = take_parts(call, 0);
    const auto each =
        (std::chrono::steady_clock::now() - begun) / static_cast<std::int64_t>(std::max<std::size_t>(1, taken));
    {
        const std::scoped_lock lock(mutex_);
        call_ = nullptr;
    }
    wait_for_helpers(std::max<std::chrono::steady_clock::duration>(too_long, 2 * each));
    if (call.failure) std::rethrow_exception(call.failure);
}

bool ThreadTeam::should_use_helpers() noexcept {
    if (calls_to_skip_ == 0) return true;
    --calls_to_skip_;
    return false;
}

// A helper finishes at most one part after the caller. One that takes longer than `patience` has lost its core to
// another program: the next calls then run without helpers, twice as many each time.
void ThreadTeam::wait_for_helpers(std::chrono::steady_clock::duration patience) noexcept {
    const auto begun = std::chrono::steady_clock::now();
    std::chrono::steady_clock::duration waited{};
    while (working_.load(std::memory_order_acquire) != 0) {
        if (waited < patience) pause();
        else std::this_thread::yield();
        waited = std::chrono::steady_clock::now() - begun;
    }
    if (waited < patience) {
        backoff_ -= (backoff_ + 7) / 8;
    } else {
        backoff_ = std::min(most_backoff, std::max(least_backoff, backoff_ * 2));
        calls_to_skip_ = backoff_;
    }
}

std::size_t ThreadTeam::take_parts(Call& call, unsigned region) noexcept {
    try {
        return take_parts_or_throw(call, region);
    } catch (...) {
        const std::scoped_lock lock(mutex_);
        call.failure = std::current_exception();
        return 0;
    }
}

std::size_t ThreadTeam::take_parts_or_throw(const Call& call, unsigned region) {
    std::size_t taken = 0;
    for (unsigned left = call.regions; left != 0; --left, region = (region + 1) % call.regions) {
        std::atomic<std::size_t>& next = counters_[region].next;
        const std::size_t end = call.begin_of(region + 1);
        for (std::size_t begin = 0; (begin = next.fetch_add(call.stretch, std::memory_order_relaxed)) < end; ++taken)
            call.work(call.context, begin, std::min(begin + call.stretch, end));
    }
    return taken;
}

void ThreadTeam::ensure_threads(unsigned helpers) {
    for (; helpers_ < helpers; ++helpers_) {
        try {
            std::thread(&ThreadTeam::run_helper, this).detach();
        } catch (const std::exception&) { // No thread, or no memory for one:
            return;                       // the caller works with those that exist.
        }
    }
}

void ThreadTeam::run_helper() noexcept {
    unsigned seen = 0;
    auto spin_time = spin;
    for (;;) {
        const auto begun = std::chrono::steady_clock::now(), until = begun + spin_time;
        while (call_number_.load(std::memory_order_acquire) == seen && std::chrono::steady_clock::now() < until)
            for (int i = 0; i < 16; ++i) pause();
        Call* call = nullptr;
        unsigned region = 0;
        {
            std::unique_lock lock(mutex_);
            called_.wait(lock, [&] { return call_number_.load(std::memory_order_relaxed) != seen; });
            seen = call_number_.load(std::memory_order_relaxed);
            if (call_ != nullptr && open_seats_ != 0) {
                call = call_;
                region = call->regions - open_seats_--;
                working_.fetch_add(1, std::memory_order_relaxed);
            }
        }
        spin_time = std::chrono::steady_clock::now() - begun < spin_in_series ? spin_in_series : spin;
        if (call == nullptr) continue;
        {
            const GuardedRead::Helper reading(call->guard);
            take_parts(*call, region);
        }
        working_.fetch_sub(1, std::memory_order_release);
    }
}

} // namespace headrace
