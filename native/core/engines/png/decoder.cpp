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
                        transparency = kind_of("tRNS");

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
    bool is_behind_pixels = false;
    for (unsigned parts = 0;;) {
        const std::uint32_t size = number(cursor);
        const Bytes checked = cursor.take(std::uint64_t{size} + kind_bytes);
        const std::uint32_t stored = number(cursor), kind = load_le<std::uint32_t>(checked.data());
        // First of all, since a changed bit may hide a transparent colour in a chunk of another name.
        const std::uint32_t found = crc32(checked);
        if (stored != found) throw FormatError(Fault::payload_checksum, cursor.offset(), stored, found);
        if (kind == transparency || kind == header) return false;
        if (kind == end) break;
        if (kind != pixels) {
            is_behind_pixels = parts != 0;
            continue;
        }
        if (is_behind_pixels) throw FormatError(Fault::structure, cursor.offset());
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
