#pragma once

#include "core/base/cursor.hpp"

namespace headrace {

/// XXH64 of some bytes. Source: Y. Collet, "xxHash fast digest algorithm", specification 0.1.1 (2018).
[[nodiscard]] std::uint64_t xxhash64(Bytes data, std::uint64_t seed) noexcept;

} // namespace headrace
