#pragma once

#include <array>
#include <span>

#include "core/base/cpu.hpp"
#include "core/base/cursor.hpp"

namespace headrace {

/// HighwayHash-64 under the key of Riegeli files ("Riegeli/records
/// ", twice). Sources: the Riegeli file format description; J. Alakuijala, B. Cox, J. Wassenberg, "Fast keyed
/// hash/pseudo-random function using SIMD multiply and permute" (2016).
[[nodiscard]] std::uint64_t riegeli_hash(Bytes data, const Cpu& cpu = this_cpu) noexcept;

/// The hashes of two inputs, computed in parallel.
[[nodiscard]] std::array<std::uint64_t, 2> riegeli_hash_pair(Bytes first, Bytes second,
                                                             const Cpu& cpu = this_cpu) noexcept;

/// An input in several pieces, as if they were joined.
using Pieces = std::span<const Bytes>;

/// The hash of an input in pieces.
[[nodiscard]] std::uint64_t riegeli_hash_pieces(Pieces pieces, const Cpu& cpu = this_cpu) noexcept;

/// The hashes of any number of inputs in pieces, computed up to four at a time. `hashes` has as many places.
void riegeli_hash_many(std::span<const Pieces> inputs, std::span<std::uint64_t> hashes,
                       const Cpu& cpu = this_cpu) noexcept;

} // namespace headrace
