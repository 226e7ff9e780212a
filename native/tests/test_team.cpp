#include "core/team.hpp"

#include <numeric>
#include <thread>
#include <vector>

#include "check.hpp"

using namespace penstock;
using namespace penstock::testing;

namespace {

void every_item_once() {
    for (const unsigned threads : {0U, 1U, 2U, 5U})
        for (const std::size_t count : {0U, 1U, 7U, 8U, 9U, 1000U}) {
            std::vector<int> seen(count);
            Team::shared().run(count, 8, threads, [&](std::size_t begin, std::size_t end) {
                check(begin < end && end <= count);
                for (; begin < end; ++begin) ++seen[begin];
            });
            check(std::accumulate(seen.begin(), seen.end(), 0) == static_cast<int>(count));
        }
}

// Callers at the same time, and calls within calls: whoever finds the helpers busy works alone.
void many_callers() {
    std::vector<std::thread> callers;
    std::vector<std::size_t> sums(4);
    for (std::size_t& sum : sums)
        callers.emplace_back([&sum] {
            for (int i = 0; i < 500; ++i) {
                std::vector<std::size_t> parts(100);
                Team::shared().run(parts.size(), 3, 3, [&](std::size_t begin, std::size_t end) {
                    for (; begin < end; ++begin)
                        Team::shared().run(1, 1, 3, [&](std::size_t, std::size_t) { parts[begin] = begin; });
                });
                sum += std::accumulate(parts.begin(), parts.end(), std::size_t{0});
            }
        });
    for (std::thread& caller : callers) caller.join();
    for (const std::size_t sum : sums) check(sum == 500 * 4950);
}

} // namespace

int main() {
    every_item_once();
    many_callers();
}
