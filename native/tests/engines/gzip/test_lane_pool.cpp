#include "core/engines/gzip/lane_pool.hpp"

#include <set>
#include <thread>

#include "check.hpp"

using namespace headrace;
using namespace headrace::deflate;
using namespace headrace::testing;

namespace {

constexpr std::size_t room = 4096;

void lanes_are_reused() {
    const auto pool = LanePool::make(room, 1);
    auto one = pool->take();
    auto other = pool->take();
    check(one != nullptr && other != nullptr && one != other);
    const Lane* const first = one.get();
    one.reset();
    check(pool->take().get() == first);
    one = pool->take();
    check(one.get() == first);
    one.reset();
    other.reset(); // The pool keeps one lane already, so it deletes this one.
    check(pool->take().get() == first);
}

void a_lane_outlives_its_holder_of_the_pool() {
    auto pool = LanePool::make(room, 2);
    const auto lane = pool->take();
    pool.reset();
    check(lane->state() == Lane::State::stuck);
}

void threads_share_a_pool() {
    const auto pool = LanePool::make(room, 4);
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            for (int turn = 0; turn < 200; ++turn) {
                const auto lane = pool->take();
                lane->begin({}, 0, 0); // Only this thread has it.
            }
        });
    for (std::thread& thread : threads) thread.join();
}

} // namespace

int main() {
    lanes_are_reused();
    a_lane_outlives_its_holder_of_the_pool();
    threads_share_a_pool();
}
