#include "core/base/shared_loop.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

constexpr std::chrono::seconds long_enough{60};

void every_item_runs_once() {
    for (const std::size_t count : {0U, 1U, 2U, 100U}) {
        std::vector<int> seen(count);
        SharedLoop::run(count, [&](SharedLoop::Items& items) {
            while (const auto item = items.next()) ++seen[*item];
        });
        check(seen == std::vector<int>(count, 1));
    }
    check(!SharedLoop::join(long_enough));
}

/// The second item waits until another thread has begun the third, so both threads take part.
void another_thread_joins() {
    for (int round = 0; round < 50; ++round) {
        std::atomic<bool> has_begun = false, has_joined = false;
        std::vector<std::thread::id> by(3);
        std::thread joins([&] {
            has_begun.wait(false);
            check(SharedLoop::join(long_enough));
            while (SharedLoop::join(long_enough)) {}
        });
        SharedLoop::run(by.size(), [&](SharedLoop::Items& items) {
            while (const auto item = items.next()) {
                by[*item] = std::this_thread::get_id();
                if (*item == 1) {
                    has_begun = true;
                    has_begun.notify_all();
                    has_joined.wait(false);
                } else if (*item == 2) {
                    has_joined = true;
                    has_joined.notify_all();
                }
            }
        });
        joins.join();
        check(by[0] == by[1] && by[0] == std::this_thread::get_id() && by[2] != by[1] && by[2] != std::thread::id());
    }
}

/// A thread that has joined for long enough leaves after an item, and may join again.
void joining_ends_in_time() {
    std::atomic<int> joined = 0;
    std::atomic<bool> has_begun = false;
    std::thread joins([&] {
        has_begun.wait(false);
        while (SharedLoop::join({})) {
            ++joined;
            joined.notify_all();
        }
    });
    std::size_t here = 0;
    SharedLoop::run(10, [&](SharedLoop::Items& items) {
        const bool is_owner = !has_begun.exchange(true);
        has_begun.notify_all();
        std::size_t mine = 0;
        while (items.next()) {
            ++mine;
            if (is_owner && mine == 1)
                for (int left = joined; left < 3; left = joined) joined.wait(left);
        }
        if (is_owner) here = mine;
        else check(mine <= 1);
    });
    joins.join();
    check(joined >= 3 && here <= 7);
}

/// Whichever thread it happens in: the first item that fails counts, and nothing is handed out after it.
void the_first_failure_counts() {
    for (int round = 0; round < 200; ++round) {
        std::atomic<bool> is_over = false;
        std::vector<std::thread> others;
        for (int i = 0; i < 3; ++i)
            others.emplace_back([&] {
                while (!is_over) SharedLoop::join(long_enough);
            });
        std::string found;
        try {
            SharedLoop::run(100, [](SharedLoop::Items& items) {
                while (const auto item = items.next())
                    if (*item == 40 || *item == 41) throw std::runtime_error(std::to_string(*item));
            });
        } catch (const std::runtime_error& error) {
            found = error.what();
        }
        is_over = true;
        for (std::thread& other : others) other.join();
        check(found == "40");
    }
}

/// Loops end while other threads look for one.
void many_loops_at_once() {
    std::atomic<int> running = 4;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            for (int round = 0; round < 300; ++round) {
                std::vector<int> seen(20);
                SharedLoop::run(seen.size(), [&](SharedLoop::Items& items) {
                    while (const auto item = items.next()) {
                        ++seen[*item];
                        if (*item == 5) (void)SharedLoop::join(std::chrono::microseconds(1));
                    }
                });
                check(seen == std::vector<int>(20, 1));
            }
            --running;
        });
    for (int i = 0; i < 2; ++i)
        threads.emplace_back([&] {
            while (running != 0) SharedLoop::join(std::chrono::microseconds(10));
        });
    for (std::thread& thread : threads) thread.join();
}

} // namespace

int main() {
    every_item_runs_once();
    another_thread_joins();
    joining_ends_in_time();
    the_first_failure_counts();
    many_loops_at_once();
}
