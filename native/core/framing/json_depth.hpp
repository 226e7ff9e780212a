#pragma once

#include <cstdint>

#include "core/base/cursor.hpp"

namespace headrace {

/// Where JSON text first nests lists and objects more than `most` levels deep; -1 where it never does. Brackets in
/// strings do not count. Parsers recurse, one call a level, so this is asked before any of them: it uses no stack, and
/// takes any bytes.
[[nodiscard]] std::int64_t json_too_deep(Bytes text, std::uint64_t most) noexcept;

} // namespace headrace
