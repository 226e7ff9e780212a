#include "core/png_rows.hpp"

#include <cstdlib>

namespace headrace {
namespace {

using Byte = std::uint8_t;

/// Of left, above and upper left, the one that is nearest to left + above - upper left. Without branches: which one it is
/// cannot be foretold.
[[nodiscard]] int paeth(int left, int above, int corner) noexcept {
    const int from_left = above - corner, from_above = left - corner;
    const int to_left = std::abs(from_left), to_above = std::abs(from_above), to_corner = std::abs(from_left + from_above);
    const int other = to_above <= to_corner ? above : corner;
    const bool is_left = (to_left <= to_above) & (to_left <= to_corner);
    return is_left ? left : other;
}

void add_left(const Byte* in, std::size_t size, std::size_t pixel, Byte* out) {
    for (std::size_t i = pixel; i < size; ++i) out[i] = static_cast<Byte>(in[i] + out[i - pixel]);
}

void add_average(const Byte* in, std::size_t size, std::size_t pixel, const Byte* above, Byte* out) {
    for (std::size_t i = 0; i < pixel; ++i) out[i] = static_cast<Byte>(in[i] + (above != nullptr ? above[i] >> 1 : 0));
    for (std::size_t i = pixel; i < size; ++i) {
        const unsigned sum = out[i - pixel] + (above != nullptr ? unsigned{above[i]} : 0U);
        out[i] = static_cast<Byte>(in[i] + (sum >> 1));
    }
}

void add_paeth(const Byte* in, std::size_t size, std::size_t pixel, const Byte* above, Byte* out) {
    for (std::size_t i = 0; i < pixel; ++i) out[i] = static_cast<Byte>(in[i] + above[i]);
    if (pixel == 1) { // The last pixel need not come back from memory.
        int left = out[0], corner = above[0];
        for (std::size_t i = 1; i < size; ++i) {
            left = (in[i] + paeth(left, above[i], corner)) & 0xFF;
            corner = above[i];
            out[i] = static_cast<Byte>(left);
        }
        return;
    }
    for (std::size_t i = pixel; i < size; ++i) {
        out[i] = static_cast<Byte>(in[i] + paeth(out[i - pixel], above[i], above[i - pixel]));
    }
}

/// One row; `above` is null for the first.
void unfilter_row(Byte filter, const Byte* in, std::size_t size, std::size_t pixel, const Byte* above, Byte* out) {
    switch (filter) {
    case 0: std::memcpy(out, in, size); return;
    case 1: std::memcpy(out, in, pixel); return add_left(in, size, pixel, out);
    case 2:
        if (above == nullptr) return unfilter_row(0, in, size, pixel, above, out);
        for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<Byte>(in[i] + above[i]);
        return;
    case 3: return add_average(in, size, pixel, above, out);
    default:
        if (above == nullptr) return unfilter_row(1, in, size, pixel, above, out); // Without a row above, left is nearest.
        return add_paeth(in, size, pixel, above, out);
    }
}

} // namespace

void unfilter_png(Bytes stream, const PngRows& rows, std::byte* out) {
    const std::size_t step = rows.row_bytes + 1;
    if (rows.height == 0 || rows.row_bytes < rows.pixel_bytes || stream.size() % step != 0 || stream.size() / step != rows.height) {
        throw FormatError(Fault::wrong_count, 0, rows.height * step, stream.size());
    }
    const auto* in = reinterpret_cast<const Byte*>(stream.data());
    auto* to = reinterpret_cast<Byte*>(out);
    const Byte* above = nullptr;
    for (std::size_t row = 0; row < rows.height; ++row) {
        const Byte filter = *in;
        if (filter > 4) throw FormatError(Fault::range, row * step, 4, filter);
        unfilter_row(filter, in + 1, rows.row_bytes, rows.pixel_bytes, above, to);
        above = to;
        in += step;
        to += rows.row_bytes;
    }
}

} // namespace headrace
