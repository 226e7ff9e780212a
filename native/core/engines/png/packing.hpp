#pragma once

#include <array>

#include "core/base/cursor.hpp"

namespace headrace {

/// Pixels that take fewer bytes in the rows of a PNG than as samples: numbers of few bits, for a grey or for a colour
/// of a palette.
struct PngPacking {
    std::size_t width = 0;    ///< Pixels of a row. The next row begins in a byte of its own.
    unsigned bits = 8;        ///< Of one pixel: 1, 2, 4 or 8.
    std::size_t channels = 1; ///< Bytes of one pixel as samples: 1 for a grey, 3 or 4 for a colour.
};

/// The colours of an image.
class PngPalette {
  public:
    /// Takes the chunk PLTE. False if it does not hold 1 to 2 ** bits colours, or comes a second time.
    [[nodiscard]] bool set_colours(Bytes chunk, unsigned bits) noexcept;

    /// Takes the chunk tRNS. False if it is empty or longer than the palette, or comes a second time. Colours behind
    /// its end are opaque.
    [[nodiscard]] bool set_alpha(Bytes chunk) noexcept;

    /// Whether it holds what these channels need, and no more.
    [[nodiscard]] bool is_complete(std::size_t channels) const noexcept {
        return (size_ != 0) == (channels != 1) && has_alpha_ == (channels == 4);
    }
    /// How many colours there are.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

    /// Writes `count` colours of these numbers, which must be below `size`.
    void write(const std::byte* numbers, std::size_t count, std::size_t channels, std::byte* out) const noexcept;

  private:
    std::array<std::array<std::byte, 4>, 256> colours_{};
    std::size_t size_ = 0;
    bool has_alpha_ = false;
};

/// Writes the samples of `height` rows to `out`: greys from 0 to 255, or colours. False, with anything in `out`, if a
/// pixel has a number beyond the palette.
[[nodiscard]] bool unpack_png(Bytes rows, std::size_t height, const PngPacking& packing, const PngPalette& palette,
                              std::byte* out);

} // namespace headrace
