#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace headrace {

/// A set of numbers below a limit that finds the smallest member from a number on: 64 numbers a word, and above each
/// level of words one that shows which of them are not empty.
class SmallestFrom {
  public:
    static constexpr std::size_t none = SIZE_MAX;

    /// Numbers are below `limit`, at least 1.
    explicit SmallestFrom(std::size_t limit);

    /// Adds a number below the limit, which may be a member already.
    void insert(std::size_t number) noexcept;

    /// Removes a number below the limit, if it is a member.
    void erase(std::size_t number) noexcept;

    /// The smallest member that is at least `number`; `none` if there is none.
    [[nodiscard]] std::size_t find(std::size_t number) const noexcept;

  private:
    std::vector<std::vector<std::uint64_t>> levels_;
};

/// Packs items into bins of equal room: best fit decreasing. Items are taken from the longest to the shortest, those of
/// equal length in their order; each goes into the bin with the least room that is enough (of several, the one that
/// was changed last), else into a new one. Johnson (1973): at most 11/9 of the fewest bins, and 6/9 of one.
/// Tests pin the result: changing it is a breaking release.
///
/// `lengths`: each from 0 to `room`; fewer than 2^32 - 1. `bins`: as long; receives the bin of each item, counted from
/// 0 in the order in which bins are opened. Returns how many there are. Takes O(n + room) time and memory.
std::size_t best_fit(std::span<const std::int64_t> lengths, std::size_t room, std::span<std::int64_t> bins);

} // namespace headrace
