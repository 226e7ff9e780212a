#pragma once

#include <cstdint>

#include "core/base/cursor.hpp"

namespace headrace::jpeg {

enum class Soundness : std::uint8_t { sound, damaged, unknown };

/// Reads all codes of a JPEG, and makes no pixels of them. For files whose pixels come from a library that reports no
/// warnings: any number of planes up to four, of any size, sequential or progressive. A file is damaged where libjpeg
/// warns: its codes end early or are none, bytes are left over, or restart markers are missing. So is one without all
/// of its planes. Arithmetic and lossless files, and those without their own codes, are `unknown`. What a fault in the
/// header is, the library says.
[[nodiscard]] Soundness soundness(Bytes file);

} // namespace headrace::jpeg
