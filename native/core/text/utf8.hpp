#pragma once

#include "core/base/cpu.hpp"
#include "core/base/cursor.hpp"

namespace headrace {

/// Whether all bytes are below 0x80.
[[nodiscard]] bool is_ascii(Bytes bytes) noexcept;

/// Whether bytes are UTF-8 as Python's strict decoder and the Unicode standard (table 3-7) define it: no overlong form,
/// no surrogate, nothing above U+10FFFF, no cut character.
[[nodiscard]] bool is_utf8(Bytes bytes, const Cpu& cpu = this_cpu) noexcept;

} // namespace headrace
