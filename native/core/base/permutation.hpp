#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/cpu.hpp"

namespace headrace {

/// A permutation of [0, n), computed and never stored: a keyed Feistel network on the bits of n - 1, whose cycle is
/// walked until the number is below n (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). The order
/// depends only on (seed, epoch, n). Tests pin it: changing it is a breaking release.
class Permutation {
  public:
    /// 1 <= n <= 2^62.
    Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch, const Cpu& cpu = this_cpu) noexcept;

    /// The index at one position below n.
    [[nodiscard]] std::uint64_t operator()(std::uint64_t position) const noexcept;

    /// The indices at positions start, start + 1, ..., all below n. Several times faster than one by one.
    void fill(std::uint64_t start, std::span<std::int64_t> out) const noexcept;

    /// The indices at any positions below n; `out` is as long as `positions`.
    void at(std::span<const std::int64_t> positions, std::span<std::int64_t> out) const noexcept;

  private:
    static constexpr std::size_t rounds = 10;
    static constexpr std::size_t block = 512; // Numbers that walk together.
    static constexpr std::size_t spare = 64;  // Places behind them, for steps of many at once.

    /// Numbers that are still outside [0, n), and where their results go.
    struct Walkers {
        std::array<std::uint64_t, block + spare> values;
        std::array<std::uint64_t, block + spare> places;
    };

    template <std::size_t lanes> void encrypt(std::uint64_t* values) const noexcept;
    template <std::size_t vectors> void encrypt_vectors(std::uint64_t* values) const noexcept;
    template <std::size_t vectors, bool narrow> void encrypt_avx2(std::uint64_t* values) const noexcept;
    template <bool narrow> void step_avx2(std::uint64_t* values, std::size_t count) const noexcept;
    std::size_t find_outside_wide(const std::uint64_t* values, std::size_t count, Walkers& found) const noexcept;
    void step(std::uint64_t* values, std::size_t count) const noexcept;
    void walk(std::uint64_t* values, std::size_t count) const noexcept;

    std::array<std::uint64_t, rounds> keys_{};
    std::uint64_t n_;
    std::uint64_t left_mask_ = 0;
    std::uint64_t right_mask_ = 0;
    unsigned right_bits_ = 0;
    [[maybe_unused]] bool has_wide_ = false; // Whether the processor multiplies eight numbers of 52 bits at once,
    [[maybe_unused]] bool has_avx2_ = false; // or four of 32 bits.
};

} // namespace headrace
