#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock {

/// A permutation of [0, n), computed and never stored: a keyed Feistel network on the next even number of bits, walked
/// along its cycle until the number is below n (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
/// The order depends on (seed, epoch, n) alone. Orders are pinned by tests: changing one is a breaking release.
class Permutation {
  public:
    /// 1 <= n <= 2^62.
    Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch) noexcept;

    /// The index at one position below n.
    [[nodiscard]] std::uint64_t operator()(std::uint64_t position) const noexcept;

    /// The indices at positions start, start + 1, ...
    void fill(std::uint64_t start, std::span<std::int64_t> out) const noexcept;

  private:
    static constexpr std::size_t rounds = 10;

    [[nodiscard]] std::uint64_t encrypt(std::uint64_t value) const noexcept;

    std::array<std::uint64_t, rounds> keys_{};
    std::uint64_t n_;
    std::uint64_t half_mask_ = 0;
    unsigned half_bits_ = 0;
};

} // namespace penstock
