#include "core/base/thread_team.hpp"

#include <numeric>
#include <thread>
#include <vector>

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

void every_item_runs_once() {
    for (const unsigned threads : {0U, 1U, 2U, 5U, 100U})
        for (const std::size_t stretch : {1U, 3U, 8U})
            for (const std::size_t count : {0U, 1U, 7U, 8U, 9U, 1000U}) {
                std::vector<int> seen(count);
                ThreadTeam::shared().run(count, stretch, threads, [&](std::size_t begin, std::size_t end) {
                    check(begin < end && end <= count);
                    for (; begin < end; ++begin) ++seen[begin];
                });
                check(seen == std::vector<int>(count, 1));
            }
}

// Concurrent and nested calls. A caller that finds the helpers busy works alone.
void many_threads_call() {
    std::vector<std::thread> callers;
    std::vector<std::size_t> sums(4);
    for (std::size_t& sum : sums)
        callers.emplace_back([&sum] {
            for (int i = 0; i < 500; ++i) {
                std::vector<std::size_t> parts(100);
                ThreadTeam::shared().run(parts.size(), 3, 3, [&](std::size_t begin, std::size_t end) {
                    for (; begin < end; ++begin)
                        ThreadTeam::shared().run(1, 1, 3, [&](std::size_t, std::size_t) { parts[begin] = begin; });
                });
                sum += std::accumulate(parts.begin(), parts.end(), std::size_t{0});
            }
        });
    for (std::thread& caller : callers) caller.join();
    for (const std::size_t sum : sums) check(sum == 500 * 4950);
}

} // namespace

int main() {
    every_item_runs_once();
    many_threads_call();
}
