#pragma once

#include "core/base/cursor.hpp"

namespace headrace::parquet {

/// Decompresses a raw Snappy block that fills `target` exactly. False, with anything in `target`, for every other
/// block: if it is damaged, or declares another size. Source: Snappy's format_description.txt.
[[nodiscard]] bool decompress_snappy(Bytes block, std::span<std::byte> target) noexcept;

} // namespace headrace::parquet
