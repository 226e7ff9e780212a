#pragma once

#include <optional>
#include <vector>

#include "core/base/cursor.hpp"
#include "core/engines/gzip/member.hpp"
#include "core/engines/png/filters.hpp"
#include "core/engines/png/packing.hpp"

namespace headrace {

/// Reads PNG images that have one header and are not interlaced: 8 or 16 bits, grey or colours, with or without alpha;
/// or packed: grey of 1, 2 or 4 bits, or with a palette, which become samples of 8 bits.
///
/// It checks the checksums of all chunks and of the pixels, and keeps its memory for the next image.
class PngReader {
  public:
    static constexpr std::size_t head_bytes = 33; ///< Of the signature and the header's chunk.

    /// `head` is the beginning of every file, and `rows` and `packing` are what it declares. Throws FormatError{header}
    /// if that is more than memory can hold.
    PngReader(Bytes head, const PngRows& rows, const std::optional<PngPacking>& packing = std::nullopt);

    /// Bytes of the samples of one image.
    [[nodiscard]] std::size_t image_bytes() const noexcept {
        return rows_.height * (packing_ ? packing_->width * packing_->channels : rows_.row_bytes);
    }

    /// Whether the file is large enough for the image it declares: deflate expands a byte to at most 1032. Ask this
    /// before allocating memory.
    [[nodiscard]] bool may_hold(Bytes file) const noexcept;

    /// Writes the samples of one image to `out`. False if it has another header, or a second one, or a transparent
    /// colour, or if its palette is not what `packing` says, or lacks a colour.
    ///
    /// Throws FormatError{truncated, payload_checksum, wrong_count, structure} for a damaged file, {range} for an
    /// unknown filter.
    [[nodiscard]] bool read(Bytes file, std::byte* out);

  private:
    [[nodiscard]] bool is_alike(Bytes file) const noexcept;

    Bytes head_;
    PngRows rows_;
    std::optional<PngPacking> packing_;
    Inflater inflater_;
    std::vector<std::byte> filtered_;
    std::vector<std::byte> joined_;
    std::vector<std::byte> packed_;
};

} // namespace headrace
