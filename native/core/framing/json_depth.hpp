#pragma once

#include <cstdint>

#include "core/base/cursor.hpp"

namespace headrace {

/// The offset at which JSON text first nests lists and objects more than `most` levels deep; -1 if it never does.
/// Ignores brackets in strings. Parsers recurse once per level, so call this before any of them: it accepts any bytes
/// and does not recurse.
[[nodiscard]] std::int64_t json_too_deep(Bytes text, std::uint64_t most) noexcept;

} // namespace headrace
