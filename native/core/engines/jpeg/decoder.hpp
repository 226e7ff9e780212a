#pragma once

#include <array>
#include <memory>
#include <vector>

#include "core/engines/jpeg/entropy.hpp"
#include "core/engines/jpeg/header.hpp"
#include "core/engines/jpeg/kernels.hpp"

namespace headrace::jpeg {

/// Decodes plain JPEGs (see `plain_header`) to the pixels that libjpeg-turbo gives with its accurate DCT and smooth
/// chroma, to the bit. Each thread needs its own: it keeps its memory, and the code tables of the image before.
class Decoder {
  public:
    explicit Decoder(const Kernels& kernels) : kernels_(kernels) {}

    /// Writes height * width * channels samples. False, with anything in `out`, if the image is not sound to its last
    /// bit. A library then decodes it, or names the fault.
    [[nodiscard]] bool decode(Bytes file, const Header& header, std::uint8_t* out);

    /// Frees the memory that only a large image needed.
    void shrink() noexcept;

  private:
    struct Plane {
        std::vector<std::uint8_t> samples;
        std::size_t stride = 0;
        std::size_t columns = 0; ///< Columns of the image.
        std::size_t rows = 0;
        [[nodiscard]] std::uint8_t* row(std::size_t number) noexcept {
            return samples.data() + before + number * stride;
        }
        static constexpr std::size_t before = 32;
    };
    struct Units {
        std::size_t across = 0, down = 0;
    };
    struct Work;

    void prepare(const Header& header);
    [[nodiscard]] bool read_blocks(const Header& header);
    [[nodiscard]] bool read_blocks_bmi2(const Header& header);
    template <int> [[nodiscard]] bool scan(const Header& header);
    void pixels(const Header& header, std::uint8_t* out);
    [[nodiscard]] std::uint8_t* chroma(Plane& plane, const Header& header, std::size_t row,
                                       std::vector<std::uint8_t>& wide) const;

    const Kernels& kernels_;
    std::array<CodeTable, 4> dc_;
    std::array<CodeTable, 4> ac_;
    Stretches stretches_;
    Units units_;
    std::array<Plane, 3> planes_;
    std::array<std::vector<std::uint8_t>, 2> wide_;
};

/// Larger images are left to a library, because all planes of an image are in memory at once.
inline constexpr std::size_t most_pixels = std::size_t{1} << 24;

/// A decoder keeps memory for this many pixels between images.
inline constexpr std::size_t kept_pixels = std::size_t{1} << 20;

} // namespace headrace::jpeg
