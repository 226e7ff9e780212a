#include "core/base/best_fit.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace headrace {
namespace {

constexpr std::size_t word_bits = 64;
constexpr std::uint32_t no_bin = UINT32_MAX;

/// The numbers of the items, from the longest to the shortest: a counting sort.
std::vector<std::uint32_t> longest_first(std::span<const std::int64_t> lengths, std::size_t room) {
    std::vector<std::uint32_t> begins(room + 2);
    for (const std::int64_t length : lengths) ++begins[room - static_cast<std::size_t>(length) + 1];
    for (std::size_t at = 1; at < begins.size(); ++at) begins[at] += begins[at - 1];
    std::vector<std::uint32_t> order(lengths.size());
    for (std::size_t item = 0; item < lengths.size(); ++item)
        order[begins[room - static_cast<std::size_t>(lengths[item])]++] = static_cast<std::uint32_t>(item);
    return order;
}

} // namespace

SmallestFrom::SmallestFrom(std::size_t limit) {
    std::size_t words = limit;
    do {
        words = (words + word_bits - 1) / word_bits;
        levels_.emplace_back(words);
    } while (words > 1);
}

void SmallestFrom::insert(std::size_t number) noexcept {
    for (std::vector<std::uint64_t>& level : levels_) {
        level[number / word_bits] |= std::uint64_t{1} << (number % word_bits);
        number /= word_bits;
    }
}

void SmallestFrom::erase(std::size_t number) noexcept {
    for (std::vector<std::uint64_t>& level : levels_) {
        std::uint64_t& word = level[number / word_bits];
        word &= ~(std::uint64_t{1} << (number % word_bits));
        if (word != 0) return;
        number /= word_bits;
    }
}

std::size_t SmallestFrom::find(std::size_t number) const noexcept {
    for (std::size_t depth = 0; depth < levels_.size(); ++depth) {
        const std::size_t word = number / word_bits;
        if (word >= levels_[depth].size()) return none;
        const std::uint64_t rest = levels_[depth][word] >> (number % word_bits);
        if (rest != 0) {
            number += static_cast<std::size_t>(std::countr_zero(rest));
            for (; depth > 0; --depth)
                number = number * word_bits + static_cast<std::size_t>(std::countr_zero(levels_[depth - 1][number]));
            return number;
        }
        number = word + 1; // above, the first of the words that follow
    }
    return none;
}

std::size_t best_fit(std::span<const std::int64_t> lengths, std::size_t room, std::span<std::int64_t> bins) {
    SmallestFrom rooms(room + 1);                        // how much room is left in some bin
    std::vector<std::uint32_t> latest(room + 1, no_bin); // for each of them, the bin changed last, ...
    std::vector<std::uint32_t> before;                   // ... and for each bin, the one before it with as much room
    for (const std::uint32_t item : longest_first(lengths, room)) {
        const auto length = static_cast<std::size_t>(lengths[item]);
        std::size_t left = rooms.find(length);
        std::uint32_t bin = 0;
        if (left == SmallestFrom::none) {
            left = room;
            bin = static_cast<std::uint32_t>(before.size());
            before.push_back(no_bin);
        } else {
            bin = latest[left];
            latest[left] = before[bin];
            if (latest[left] == no_bin) rooms.erase(left);
        }
        left -= length;
        if (latest[left] == no_bin) rooms.insert(left);
        before[bin] = latest[left];
        latest[left] = bin;
        bins[item] = bin;
    }
    return before.size();
}

} // namespace headrace
