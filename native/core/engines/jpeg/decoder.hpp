#pragma once

#include <array>
#include <memory>
#include <vector>

#include "core/engines/jpeg/entropy.hpp"
#include "core/engines/jpeg/header.hpp"
#include "core/engines/jpeg/kernels.hpp"
#include "core/engines/jpeg/progressive.hpp"

namespace headrace::jpeg {

/// A part of an image, in pixels of the image shrunk by `shrink`.
struct Region {
    std::size_t left = 0;
    std::size_t top = 0;
    std::size_t width = 0;
    std::size_t height = 0;
    std::size_t shrink = 1; ///< 1, 2, 4 or 8: each pixel is the mean of that many by as many, as libjpeg shrinks.
};

/// The length of a side shrunk by `shrink`.
constexpr std::size_t shrunk(std::size_t side, std::size_t shrink) { return (side + shrink - 1) / shrink; }

/// The largest `shrink` that a file can be decoded by.
[[nodiscard]] std::size_t most_shrink(const Header& header) noexcept;

/// Decodes plain JPEGs (see `plain_header`) to the pixels that libjpeg-turbo gives with its accurate DCT and smooth
/// chroma, to the bit. Each thread needs its own: it keeps its memory, and the code tables of the image before.
class Decoder {
  public:
    explicit Decoder(const Kernels& kernels) : kernels_(kernels), progressive_(kernels.cpu) {}

    /// Writes height * width * channels samples. False, with anything in `out`, if the image is not sound to its last
    /// bit. A library then decodes it, or names the fault.
    [[nodiscard]] bool decode(Bytes file, const Header& header, std::uint8_t* out);

    /// The same for a part of the image: the pixels that it has in the whole one. Reads the file up to the last row of
    /// blocks that it needs, so damage behind it is not seen. `region` must lie in the image and not be empty, and
    /// `region.shrink` must be at most `most_shrink`.
    [[nodiscard]] bool decode(Bytes file, const Header& header, const Region& region, std::uint8_t* out);

    /// Frees the memory that only a large image needed.
    void shrink() noexcept;

  private:
    struct Plane {
        std::vector<std::uint8_t> samples;
        std::size_t stride = 0;
        std::size_t columns = 0; ///< Columns of the image.
        std::size_t rows = 0;
        std::size_t side = 8;   ///< Samples of a block in a row, and in a column.
        std::size_t kept = 0;   ///< Rows in memory, a power of two: those of some rows of units.
        std::size_t next = 0;   ///< The first row whose edges are not repeated yet. See `repeat_edges`.
        bool is_narrow = false; ///< Has half the columns of the image.
        bool is_low = false;    ///< Has half the rows, too.
        [[nodiscard]] std::uint8_t* row(std::size_t number) noexcept {
            return samples.data() + before + (number & (kept - 1)) * stride;
        }
        static constexpr std::size_t before = 32;
    };
    struct Units {
        std::size_t across = 0, down = 0;
    };
    /// The units that a region needs.
    struct Needed {
        std::size_t left = 0, right = 0, top = 0, bottom = 0;
    };
    struct Blocks;
    struct Work;

    void prepare(const Header& header, const Region& region);
    [[nodiscard]] bool read_sequential(const Header& header, const Region& region);
    void transform_planes(const Header& header, const Region& region);
    [[nodiscard]] bool read_blocks(const Header& header, const Region& region);
    [[nodiscard]] bool read_blocks_bmi2(const Header& header, const Region& region);
    template <int> [[nodiscard]] bool scan(const Header& header, const Region& region);
    void transform_blocks(const Blocks& blocks, std::size_t from, std::size_t to, std::size_t side) const;
    void write_rows(const Header& header, const Region& region, std::size_t units);
    static void repeat_edges(Plane& plane, const Region& region, std::size_t rows);
    [[nodiscard]] const std::uint8_t* chroma(Plane& plane, const Region& region, std::size_t row,
                                             std::vector<std::uint8_t>& wide) const;

    const Kernels& kernels_;
    std::array<CodeTable<false>, 4> dc_;
    std::array<CodeTable<true>, 4> ac_;
    Stretches stretches_;
    ProgressiveReader progressive_;
    Units units_;
    Needed needed_;
    std::size_t units_at_once_ = 1; ///< Rows of units between two calls of `write_rows`.
    std::array<Plane, 3> planes_;
    std::array<std::vector<std::uint8_t>, 2> wide_;
    std::uint8_t* out_ = nullptr; ///< Where the next row of pixels goes.
    std::size_t next_row_ = 0;    ///< Its number.
};

/// Larger progressive images are left to a library, because all their coefficients are in memory at once.
inline constexpr std::size_t most_progressive_pixels = std::size_t{1} << 25;

/// A decoder keeps memory for this many pixels between images.
inline constexpr std::size_t kept_pixels = std::size_t{1} << 20;

} // namespace headrace::jpeg
