#pragma once

#include "core/base/cursor.hpp"

namespace headrace::proto {

/// The least bytes of a run that the function below takes.
inline constexpr std::size_t short_varints_least = 64;

struct ShortVarints {
    std::size_t count = 0;           ///< Numbers decoded. More than `room` means that `room` was too small.
    const std::byte* next = nullptr; ///< The first byte after them.
};

/// Decodes the varints from `at` on, in a run that ends with the end of one, to little-endian 64-bit integers, many at
/// a time. For processors with AVX2. Stops at the end of the run, or at (or a few varints before) a varint of more than
/// four bytes or 64 varints of one byte. `to` has room for `room` numbers.
[[nodiscard]] ShortVarints decode_short_varints(Bytes run, const std::byte* at, std::byte* to,
                                                std::size_t room) noexcept;

} // namespace headrace::proto
