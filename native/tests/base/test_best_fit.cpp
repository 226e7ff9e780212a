#include "core/base/best_fit.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

using Numbers = std::vector<std::int64_t>;

/// The same by its definition, comparing every bin.
Numbers slow_best_fit(const Numbers& lengths, std::int64_t room) {
    std::vector<std::size_t> order(lengths.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return lengths[a] > lengths[b]; });
    Numbers bins(lengths.size()), left, changed;
    std::int64_t time = 0;
    for (const std::size_t item : order) {
        std::size_t best = left.size();
        for (std::size_t bin = 0; bin < left.size(); ++bin) {
            if (left[bin] < lengths[item]) continue;
            if (best == left.size() || left[bin] < left[best] ||
                (left[bin] == left[best] && changed[bin] > changed[best]))
                best = bin;
        }
        if (best == left.size()) {
            left.push_back(room);
            changed.push_back(0);
        }
        left[best] -= lengths[item];
        changed[best] = ++time;
        bins[item] = static_cast<std::int64_t>(best);
    }
    return bins;
}

void matches_slow_packing(const Numbers& lengths, std::int64_t room) {
    Numbers bins(lengths.size(), -1);
    const std::size_t count = best_fit(lengths, static_cast<std::size_t>(room), bins);
    check(bins == slow_best_fit(lengths, room));
    Numbers filled(count);
    for (std::size_t item = 0; item < bins.size(); ++item) {
        check(bins[item] >= 0 && static_cast<std::size_t>(bins[item]) < count);
        filled[static_cast<std::size_t>(bins[item])] += lengths[item];
    }
    for (const std::int64_t sum : filled) check(sum <= room);
}

void finds_the_same_bin_as_a_set(std::size_t limit) {
    std::mt19937_64 random(limit);
    SmallestFrom fast(limit);
    std::set<std::size_t> slow;
    for (int step = 0; step < 2'000; ++step) {
        const std::size_t number = random() % limit;
        if (random() % 2 == 0) {
            fast.insert(number);
            slow.insert(number);
        } else {
            fast.erase(number);
            slow.erase(number);
        }
        const std::size_t from = random() % limit;
        const auto found = slow.lower_bound(from);
        check(fast.find(from) == (found == slow.end() ? SmallestFrom::none : *found));
    }
    check(fast.find(limit) == SmallestFrom::none || fast.find(limit) >= limit);
}

} // namespace

int main() {
    for (const std::size_t limit : {1, 2, 63, 64, 65, 4'096, 4'097, 300'000}) finds_the_same_bin_as_a_set(limit);

    Numbers none;
    check(best_fit(none, 5, none) == 0);
    matches_slow_packing({3, 2, 2, 1}, 4);
    matches_slow_packing({0, 0, 4, 0}, 4);
    matches_slow_packing({0, 0}, 0);
    Numbers bins(4);
    check(best_fit(Numbers{1, 2, 2, 3}, 4, bins) == 2);
    check(bins == Numbers{0, 1, 1, 0});

    std::mt19937_64 random(7);
    for (int round = 0; round < 300; ++round) {
        const auto room = static_cast<std::int64_t>(1 + random() % 200);
        Numbers lengths(random() % 150);
        for (std::int64_t& length : lengths)
            length = static_cast<std::int64_t>(random() % (static_cast<std::uint64_t>(room) + 1));
        matches_slow_packing(lengths, room);
    }
}
