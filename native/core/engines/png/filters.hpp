#pragma once

#include "core/base/cpu.hpp"
#include "core/base/cursor.hpp"

namespace headrace {

/// The rows of a PNG in its decompressed stream. Each is one byte for its filter and `row_bytes` of filtered samples.
struct PngRows {
    std::size_t height = 0;      ///< Rows of one image.
    std::size_t row_bytes = 0;   ///< Bytes of one row without the filter's byte.
    std::size_t pixel_bytes = 1; ///< Bytes of one pixel, 1 to 8.
};

/// Undoes the filters of one image (PNG specification, section 9) and writes its height * row_bytes samples to `out`.
/// Throws FormatError{wrong_count} when `stream` holds more or fewer rows, {range} when a row names no filter.
void unfilter_png(Bytes stream, const PngRows& rows, std::byte* out, const Cpu& cpu = this_cpu);

} // namespace headrace
