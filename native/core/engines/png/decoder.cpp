#include "core/engines/png/decoder.hpp"

#include <algorithm>
#include <cstdlib>

#include "core/checksum/crc32.hpp"

namespace headrace {
namespace {

using Byte = std::uint8_t;

/// The one of left, above and upper left that is nearest to left + above - upper left. Without branches, because a
/// processor cannot predict it.
[[nodiscard]] int paeth(int left, int above, int corner) noexcept {
    const int from_left = above - corner, from_above = left - corner;
    const int to_left = std::abs(from_left), to_above = std::abs(from_above),
              to_corner = std::abs(from_left + from_above);
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

/// Undoes the filter of one row; `above` is null for the first.
void unfilter_row(Byte filter, const Byte* in, std::size_t size, std::size_t pixel, const Byte* above, Byte* out) {
    if (above == nullptr && filter == 2) filter = 0; // Nothing is above.
    if (above == nullptr && filter == 4) filter = 1; // Without a row above, left is nearest.
    switch (filter) {
    case 0: std::memcpy(out, in, size); return;
    case 1: std::memcpy(out, in, pixel); return add_left(in, size, pixel, out);
    case 2:
        for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<Byte>(in[i] + above[i]);
        return;
    case 3: return add_average(in, size, pixel, above, out);
    default: return add_paeth(in, size, pixel, above, out);
    }
}

} // namespace

void unfilter_png(Bytes stream, const PngRows& rows, std::byte* out) {
    const std::size_t step = rows.row_bytes + 1;
    if (rows.height == 0 || rows.row_bytes < rows.pixel_bytes || stream.size() % step != 0 ||
        stream.size() / step != rows.height) {
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

namespace {

constexpr std::uint64_t most_expansion = 1032, least_stream = 64;
constexpr std::size_t kind_bytes = 4;

/// The type of a chunk as a number, the first letter lowest.
constexpr std::uint32_t kind_of(const char (&name)[5]) {
    std::uint32_t kind = 0;
    for (unsigned i = 0; i < kind_bytes; ++i) kind |= static_cast<std::uint32_t>(name[i]) << (8 * i);
    return kind;
}

constexpr std::uint32_t pixels = kind_of("IDAT"), end = kind_of("IEND"), transparency = kind_of("tRNS");

[[nodiscard]] std::uint32_t number(Cursor& cursor) {
    const auto value = cursor.le<std::uint32_t>();
    return value << 24 | (value & 0xFF00U) << 8 | (value >> 8 & 0xFF00U) | value >> 24;
}

} // namespace

PngReader::PngReader(Bytes head, const PngRows& rows) : head_(head), rows_(rows) {
    if (rows.height != 0 && rows.row_bytes >= SIZE_MAX / rows.height - 1) {
        FormatError error(Fault::header, 0, SIZE_MAX, rows.row_bytes);
        error.record = 0;
        throw error;
    }
}

bool PngReader::is_alike(Bytes file) const noexcept {
    return file.size() >= head_.size() && std::equal(head_.begin(), head_.end(), file.begin());
}

bool PngReader::may_hold(Bytes file) const noexcept {
    return !is_alike(file) || rows_.height + image_bytes() <= file.size() * most_expansion + least_stream;
}

bool PngReader::read(Bytes file, std::byte* out) {
    if (!is_alike(file)) return false;
    Cursor cursor(file.subspan(head_.size()), head_.size());
    Bytes stream;
    joined_.clear();
    for (unsigned parts = 0;;) {
        const std::uint32_t size = number(cursor);
        const Bytes checked = cursor.take(std::uint64_t{size} + kind_bytes);
        const std::uint32_t stored = number(cursor), kind = load_le<std::uint32_t>(checked.data());
        if (kind == transparency) return false;
        if (kind == end) break;
        if (kind != pixels) continue;
        const std::uint32_t found = crc32(checked);
        if (stored != found) throw FormatError(Fault::payload_checksum, cursor.offset(), stored, found);
        const Bytes part = checked.subspan(kind_bytes);
        if (++parts == 2) joined_.assign(stream.begin(), stream.end());
        if (parts >= 2) joined_.insert(joined_.end(), part.begin(), part.end());
        stream = parts >= 2 ? Bytes(joined_) : part;
    }
    filtered_.resize(rows_.height + image_bytes());
    inflater_.inflate(stream, filtered_);
    unfilter_png(filtered_, rows_, out);
    return true;
}

} // namespace headrace
