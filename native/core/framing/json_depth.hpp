#pragma once

#include <cstdint>

#include "core/base/cursor.hpp"

namespace headrace {

/// The offset at which JSON text first nests lists and objects more than `most` levels deep; -1 if it never does.
/// Ignores brackets in strings. Parsers recurse once per level, so call this before any of them: it accepts any bytes
/// and does not recurse.
[[nodiscard]] std::int64_t json_too_deep(Bytes text, std::uint64_t most) noexcept;

/// The offset of the first byte at which lines of JSON are anything but one object each, nested at most `most` levels
/// deep; -1 if there is none, and the number of bytes if the last object does not end. Looks at quotes, brackets and
/// line ends only, so an object may still be no JSON. What a parser takes before it meets a fault is an object of its
/// line.
[[nodiscard]] std::int64_t json_not_objects(Bytes lines, std::uint64_t most) noexcept;

} // namespace headrace
