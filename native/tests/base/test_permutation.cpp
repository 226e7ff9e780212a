#include "core/base/permutation.hpp"

#include <algorithm>

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

// A processor with vectors of 32 bytes but none of 64, if this one has them.
Cpu with_avx2_at_most() {
    Cpu cpu;
    cpu.avx2 = this_cpu.avx2;
    return cpu;
}

void is_a_permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch) {
    const Permutation order(n, seed, epoch);
    std::vector<std::int64_t> indices(n);
    order.fill(0, indices);
    std::vector<bool> seen(n);
    for (std::uint64_t i = 0; i < n; ++i) {
        const auto index = static_cast<std::uint64_t>(indices[i]);
        check(index < n && !seen[index]);
        seen[index] = true;
        if (i % 97 == 0) check(order(i) == index);
    }
    std::vector<std::int64_t> positions, some;
    for (std::uint64_t i = n; i-- > 0; i -= std::min(i, n / 300)) positions.push_back(static_cast<std::int64_t>(i));
    some.resize(positions.size());
    order.at(positions, some);
    for (std::size_t i = 0; i < some.size(); ++i) check(some[i] == indices[static_cast<std::size_t>(positions[i])]);
    for (const Cpu& cpu : {Cpu{}, with_avx2_at_most()}) { // the same on a processor with fewer instructions
        std::vector<std::int64_t> others(n);
        Permutation(n, seed, epoch, cpu).fill(0, others);
        check(others == indices);
    }
}

} // namespace

int main() {
    for (std::uint64_t n = 1; n < 400; ++n) is_a_permutation(n, n * 7, n % 5);
    for (unsigned bits = 9; bits <= 18; ++bits)
        for (const std::uint64_t n : {(1ULL << bits) - 1, 1ULL << bits, (1ULL << bits) + 1}) is_a_permutation(n, 3, 1);

    // Large n: distinct and below n, at both ends.
    for (const std::uint64_t n : {(1ULL << 24) - 1, 1ULL << 24, (1ULL << 24) + 1, 1ULL << 25, (1ULL << 32) + 1,
                                  (1ULL << 40) - 1, 1ULL << 40, (1ULL << 40) + 1, (1ULL << 61) + 1, 1ULL << 62}) {
        const Permutation order(n, 11, 2);
        std::vector<std::int64_t> indices(20'000);
        order.fill(0, std::span(indices).first(10'000));
        order.fill(n - 10'000, std::span(indices).subspan(10'000));
        for (const Cpu& cpu : {Cpu{}, with_avx2_at_most()}) {
            std::vector<std::int64_t> others(10'000);
            Permutation(n, 11, 2, cpu).fill(n - 10'000, others);
            check(std::ranges::equal(others, std::span(indices).subspan(10'000)));
        }
        std::sort(indices.begin(), indices.end());
        check(indices.front() >= 0 && static_cast<std::uint64_t>(indices.back()) < n);
        check(std::adjacent_find(indices.begin(), indices.end()) == indices.end());
    }
}
