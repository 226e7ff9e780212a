#include "core/base/shared_loop.hpp"

#include <algorithm>
#include <array>

#include "core/base/thread_team.hpp"

namespace headrace {
namespace {

/// A place where other threads find a loop. They count themselves before they look, so the owner, who empties the place
/// and then waits until the count is 0, knows that none of them still uses the loop. In a forked child, places may hold
/// loops and counts of the parent's threads, which it does not have.
struct alignas(64) Place {
    std::atomic<SharedLoop*> loop{nullptr};
    std::atomic<unsigned> visitors{0};
    std::atomic<int> process{0}; // of the owner
    std::atomic<bool> is_taken{false};

    void leave() noexcept {
        if (visitors.fetch_sub(1) == 1) visitors.notify_all();
    }
};

constexpr std::size_t most_shared = 32; // More loops at once are not shared: their threads keep all cores busy.
std::array<Place, most_shared> places;

Place* take_place() noexcept {
    for (Place& place : places) {
        if (place.is_taken.exchange(true)) continue;
        if (const int process = process_id(); place.process.exchange(process) != process) place.visitors = 0;
        return &place;
    }
    return nullptr;
}

} // namespace

std::optional<std::size_t> SharedLoop::Items::next() noexcept {
    if (has_begun_ && until_ && loop_.has_items() && Clock::now() >= *until_) return std::nullopt;
    has_begun_ = true;
    const std::size_t item = loop_.next_.fetch_add(1, std::memory_order_relaxed);
    if (item >= loop_.count_) {
        loop_.next_.store(loop_.count_, std::memory_order_relaxed); // It never overflows.
        return std::nullopt;
    }
    latest_ = item;
    return item;
}

void SharedLoop::take_part(std::optional<Clock::time_point> until) noexcept {
    Items items(*this, until);
    try {
        work_(items);
    } catch (...) {
        next_.store(count_, std::memory_order_relaxed);
        const std::scoped_lock lock(failed_);
        if (!failure_ || items.latest_ < failed_item_) {
            failed_item_ = items.latest_;
            failure_ = std::current_exception();
        }
    }
}

void SharedLoop::run(std::size_t count, const Work& work) {
    SharedLoop loop(count, work);
    Place* const place = count > 1 ? take_place() : nullptr;
    if (place != nullptr) place->loop.store(&loop);
    loop.take_part(std::nullopt);
    if (place != nullptr) {
        place->loop.store(nullptr);
        for (unsigned left = place->visitors.load(); left != 0; left = place->visitors.load())
            place->visitors.wait(left);
        place->is_taken.store(false);
    }
    if (loop.failure_) std::rethrow_exception(loop.failure_);
}

bool SharedLoop::is_any_shared() noexcept {
    return std::ranges::any_of(places, [](const Place& place) { return place.loop.load() != nullptr; });
}

bool SharedLoop::join(Clock::duration most) {
    for (Place& place : places) {
        if (place.loop.load() == nullptr || place.process.load() != process_id()) continue;
        place.visitors.fetch_add(1);
        SharedLoop* const loop = place.loop.load();
        const bool has_items = loop != nullptr && loop->has_items();
        if (has_items) {
            const GuardedRead::Helper guard(loop->guard_);
            loop->take_part(Clock::now() + most);
        }
        place.leave();
        if (has_items) return true;
    }
    return false;
}

} // namespace headrace
