#include "core/base/thread_team.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <immintrin.h>
#endif

namespace headrace {
namespace {

// A call soon after another finds its helpers awake: waking one takes as long as it then has left to do. They wait
// longer where the last call came soon enough for that.
constexpr auto awake = std::chrono::microseconds(50), awake_in_series = std::chrono::microseconds(300);
constexpr auto too_long = std::chrono::microseconds(200);
constexpr unsigned least_alone = 4, most_alone = 1024; // calls

void pause() noexcept {
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    _mm_pause();
#else
    std::this_thread::yield();
#endif
}

std::atomic<Team*> team{nullptr}; // Never deleted: its helpers wait there until the process ends.

} // namespace

Team& Team::shared() {
    if (Team* const found = team.load(std::memory_order_acquire)) return *found;
#if defined(__unix__) || defined(__APPLE__)
    [[maybe_unused]] static const int registered =
        pthread_atfork(nullptr, nullptr, [] { team.store(nullptr, std::memory_order_release); });
#endif
    auto made = std::make_unique<Team>();
    Team* none = nullptr;
    if (team.compare_exchange_strong(none, made.get(), std::memory_order_acq_rel)) return *made.release();
    return *none;
}

void Team::run_call(Call call, unsigned threads) {
    const std::size_t parts = call.parts();
    const auto helpers = static_cast<unsigned>(
        std::min<std::size_t>({threads == 0 ? 0 : threads - 1, parts == 0 ? 0 : parts - 1, most_helpers}));
    std::unique_lock mine(busy_, std::defer_lock);
    if (helpers == 0 || !mine.try_lock() || !is_worth_calling()) {
        if (call.count != 0) call.work(call.context, 0, call.count);
        return;
    }
    {
        const std::scoped_lock lock(mutex_);
        hire(helpers);
        call.regions = helpers + 1;
        for (unsigned region = 0; region < call.regions; ++region)
            places_[region].next.store(call.begin_of(region), std::memory_order_relaxed);
        call_ = &call;
        wanted_ = helpers;
        number_.fetch_add(1, std::memory_order_release);
    }
    called_.notify_all();
    take_parts(call, 0);
    {
        const std::scoped_lock lock(mutex_);
        call_ = nullptr;
    }
    wait_for_helpers();
    if (call.failure) std::rethrow_exception(call.failure);
}

bool Team::is_worth_calling() noexcept {
    if (alone_ == 0) return true;
    --alone_;
    return false;
}

// A helper ends at most one part later than the caller. One that takes much longer has lost its core to another
// program: then calls go without help for a while, for twice as long each time.
void Team::wait_for_helpers() noexcept {
    const auto begun = std::chrono::steady_clock::now();
    std::chrono::steady_clock::duration waited{};
    while (inside_.load(std::memory_order_acquire) != 0) {
        if (waited < too_long) pause();
        else std::this_thread::yield();
        waited = std::chrono::steady_clock::now() - begun;
    }
    if (waited < too_long) {
        last_alone_ -= (last_alone_ + 7) / 8;
    } else {
        last_alone_ = std::min(most_alone, std::max(least_alone, last_alone_ * 2));
        alone_ = last_alone_;
    }
}

void Team::take_parts(Call& call, unsigned region) noexcept {
    try {
        take_parts_or_throw(call, region);
    } catch (...) {
        const std::scoped_lock lock(mutex_);
        call.failure = std::current_exception();
    }
}

void Team::take_parts_or_throw(const Call& call, unsigned region) {
    for (unsigned left = call.regions; left != 0; --left, region = (region + 1) % call.regions) {
        std::atomic<std::size_t>& next = places_[region].next;
        const std::size_t end = call.begin_of(region + 1);
        for (std::size_t begin = 0; (begin = next.fetch_add(call.stretch, std::memory_order_relaxed)) < end;)
            call.work(call.context, begin, std::min(begin + call.stretch, end));
    }
}

void Team::hire(unsigned helpers) {
    for (; helpers_ < helpers; ++helpers_) {
        try {
            std::thread(&Team::help, this).detach();
        } catch (const std::exception&) { // No more threads are to be had, or no memory for one.
            return;                       // The caller does the work alone, then.
        }
    }
}

void Team::help() noexcept {
    unsigned seen = 0;
    auto patience = awake;
    for (;;) {
        const auto begun = std::chrono::steady_clock::now(), until = begun + patience;
        while (number_.load(std::memory_order_acquire) == seen && std::chrono::steady_clock::now() < until)
            for (int i = 0; i < 16; ++i) pause();
        Call* call = nullptr;
        unsigned region = 0;
        {
            std::unique_lock lock(mutex_);
            called_.wait(lock, [&] { return number_.load(std::memory_order_relaxed) != seen; });
            seen = number_.load(std::memory_order_relaxed);
            if (call_ != nullptr && wanted_ != 0) {
                call = call_;
                region = call->regions - wanted_--;
                inside_.fetch_add(1, std::memory_order_relaxed);
            }
        }
        patience = std::chrono::steady_clock::now() - begun < awake_in_series ? awake_in_series : awake;
        if (call == nullptr) continue;
        {
            const GuardedRead::Helper reading(call->guard);
            take_parts(*call, region);
        }
        inside_.fetch_sub(1, std::memory_order_release);
    }
}

} // namespace headrace
