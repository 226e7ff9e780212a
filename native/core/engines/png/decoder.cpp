#include "core/engines/png/decoder.hpp"

#include <algorithm>

#include "core/checksum/crc32.hpp"

namespace headrace {
namespace {

constexpr std::uint64_t most_expansion = 1032, least_stream = 64;
constexpr std::size_t kind_bytes = 4;

/// The type of a chunk as a number, the first letter lowest.
constexpr std::uint32_t kind_of(const char (&name)[5]) {
    std::uint32_t kind = 0;
    for (unsigned i = 0; i < kind_bytes; ++i) kind |= static_cast<std::uint32_t>(name[i]) << (8 * i);
    return kind;
}

constexpr std::uint32_t header = kind_of("IHDR"), pixels = kind_of("IDAT"), end = kind_of("IEND"),
                        transparency = kind_of("tRNS"), colours = kind_of("PLTE");

[[nodiscard]] std::uint32_t number(Cursor& cursor) {
    const auto value = cursor.le<std::uint32_t>();
    return value << 24 | (value & 0xFF00U) << 8 | (value >> 8 & 0xFF00U) | value >> 24;
}

} // namespace

PngReader::PngReader(Bytes head, const PngRows& rows, const std::optional<PngPacking>& packing)
    : head_(head),
      rows_(rows),
      packing_(packing) {
    // A row of samples is longer than a packed one, or equal to it.
    const std::size_t row_bytes = packing ? packing->width : rows.row_bytes;
    const std::size_t times = packing ? packing->channels : 1;
    if (rows.height != 0 && row_bytes >= SIZE_MAX / times / rows.height - 1) {
        FormatError error(Fault::header, 0, SIZE_MAX, row_bytes);
        error.record = 0;
        throw error;
    }
}

bool PngReader::is_alike(Bytes file) const noexcept {
    return file.size() >= head_.size() && std::equal(head_.begin(), head_.end(), file.begin());
}

bool PngReader::may_hold(Bytes file) const noexcept {
    const std::size_t stream = rows_.height + rows_.height * rows_.row_bytes;
    return !is_alike(file) || stream <= file.size() * most_expansion + least_stream;
}

bool PngReader::read(Bytes file, std::byte* out) {
    if (!is_alike(file)) return false;
    Cursor cursor(file.subspan(head_.size()), head_.size());
    Bytes stream;
    joined_.clear();
    bool is_behind_pixels = false;
    PngPalette palette;
    const bool has_palette = packing_ && packing_->channels != 1;
    for (unsigned parts = 0;;) {
        const std::uint32_t size = number(cursor);
        const Bytes checked = cursor.take(std::uint64_t{size} + kind_bytes);
        const std::uint32_t stored = number(cursor), kind = load_le<std::uint32_t>(checked.data());
        // First of all, since a changed bit may hide a transparent colour in a chunk of another name.
        const std::uint32_t found = crc32(checked);
        if (stored != found) throw FormatError(Fault::payload_checksum, cursor.offset(), stored, found);
        const Bytes part = checked.subspan(kind_bytes);
        if (kind == header) return false;
        if (kind == transparency && (!has_palette || parts != 0 || !palette.set_alpha(part))) return false;
        if (kind == colours && has_palette && (parts != 0 || !palette.set_colours(part, packing_->bits))) return false;
        if (kind == end) break;
        if (kind != pixels) {
            is_behind_pixels = parts != 0;
            continue;
        }
        if (is_behind_pixels) throw FormatError(Fault::structure, cursor.offset());
        if (++parts == 2) joined_.assign(stream.begin(), stream.end());
        if (parts >= 2) joined_.insert(joined_.end(), part.begin(), part.end());
        stream = parts >= 2 ? Bytes(joined_) : part;
    }
    if (has_palette && !palette.is_complete(packing_->channels)) return false;
    const std::size_t size = rows_.height * rows_.row_bytes;
    filtered_.resize(rows_.height + size);
    inflater_.inflate(stream, filtered_);
    if (!packing_) {
        unfilter_png(filtered_, rows_, out);
        return true;
    }
    packed_.resize(size);
    unfilter_png(filtered_, rows_, packed_.data());
    return unpack_png(packed_, rows_.height, *packing_, palette, out);
}

} // namespace headrace
