#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/cpu.hpp"

namespace headrace::pixels {

struct Size {
    std::size_t height = 0, width = 0;
    bool operator==(const Size&) const = default;
};

struct Box {
    std::size_t top = 0, left = 0, height = 0, width = 0;
    bool operator==(const Box&) const = default;
};

/// One look at an image: `box` of it, resized to `size`, of which `window` is kept.
struct View {
    Box box;
    Size size;
    Box window;
    bool is_flipped = false;
};

/// Filters, wider by the factor by which an axis shrinks, as Pillow has them.
enum class Filter : std::uint8_t { nearest, box, bilinear, bicubic, lanczos };

/// The weights of two neighbouring samples, in 22 bits of fraction: the lower 15 bits of both, and the bits above.
struct WeightPair {
    std::array<std::int16_t, 2> low, high;
};

/// How the samples of one axis are made from those of another.
struct Taps {
    struct Sample {
        std::size_t begin; ///< The first one it is made from.
        std::size_t count; ///< From how many.
        std::size_t pairs; ///< Where its weights begin. The second of a last pair is 0 if `count` is odd.
    };
    std::vector<Sample> samples;
    std::vector<WeightPair> pairs;
    std::size_t begin = 0; ///< The first sample that any is made from.
    std::size_t end = 0;   ///< Behind the last one.
    bool is_copy = false;  ///< Every sample is one sample.

    /// `first` up to `last` of the `count` samples that [from, to) of `length` become. The same memory is used again.
    void fill(std::size_t length, double from, double to, std::size_t count, std::size_t first, std::size_t last,
              Filter filter);

  private:
    void rebase(std::size_t length);
};

/// Functions that work on many samples.
struct ResizeKernels {
    /// out[i] = the sum over j of rows[j * step + i], by the weights of `pairs`, rounded.
    void (*weigh)(const std::uint8_t* rows, std::size_t step, const WeightPair* pairs, std::size_t count,
                  std::size_t columns, std::uint8_t* out);
    /// to[j * to_step + i] = from[i * from_step + j] for i below `rows` and j below `columns`.
    void (*transpose)(const std::uint8_t* from, std::size_t from_step, std::size_t rows, std::size_t columns,
                      std::uint8_t* to, std::size_t to_step);
};

/// Kernels for every machine, which define the result.
[[nodiscard]] const ResizeKernels& plain_resize_kernels() noexcept;

/// Kernels for a processor with AVX2; null for every other one.
[[nodiscard]] const ResizeKernels* vector_resize_kernels(const Cpu& cpu = this_cpu) noexcept;

/// Samples of an image, channel by channel in each pixel.
struct Pixels {
    const std::uint8_t* data;
    std::size_t stride; ///< Samples from one row to the next.
};

/// Resizes as Pillow 13 does, to the bit: first every row, then every column, both in 22 bits of fraction and rounded
/// to `uint8`. The columns come first where the height shrinks by more than twice as many pixels as the width. Colours
/// are weighed by their alpha, if the pixels have 2 or 4 channels. Each thread needs its own, which keeps its memory.
class Resizer {
  public:
    explicit Resizer(const ResizeKernels& kernels) : kernels_(kernels) {}

    /// Plans a view. The part of the image in `view.box` may be shrunk already: pixels of the plan are means of
    /// `shrink` x `shrink`, counted from the corner of the image.
    void plan(const View& view, Size image, Filter filter, std::size_t shrink = 1);

    /// The part of the (shrunk) image that the view is made from.
    [[nodiscard]] const Box& needed() const noexcept { return needed_; }

    /// Makes the pixels of `view.window` from those of `needed`: height * width * channels samples.
    void run(Pixels from, std::size_t channels, std::uint8_t* out);

    /// Frees the memory that only a large image needed.
    void shrink() noexcept;

  private:
    void run_rows_first(Pixels from, std::size_t channels, std::uint8_t* out);
    void run_columns_first(const Pixels& from, std::size_t channels, std::uint8_t* out);
    void resize_rows(const Pixels& from, std::size_t height, std::size_t channels, std::size_t first_column,
                     std::size_t columns);
    void resize_columns(const Pixels& from, std::size_t row_size, std::size_t first_row, std::size_t rows_out,
                        std::uint8_t* out, std::size_t out_stride) const;
    void mirror_rows(const Pixels& from, std::size_t channels);

    const ResizeKernels& kernels_;
    Taps across_, down_;
    Box needed_;
    Size window_;
    bool is_flipped_ = false;
    bool is_weighed_ = false; ///< Pixels are sums of several ones.
    bool are_columns_first_ = false;
    std::vector<std::uint8_t> multiplied_, flat_, narrow_, turned_, turned_narrow_, few_;
};

/// The `shrink` (1, 4 or 8, at most `most`) that an image may be decoded by, so that what is left to do for a view
/// is still to shrink it by `room` or more.
[[nodiscard]] std::size_t shrink_for(const View& view, std::size_t most, double room) noexcept;

} // namespace headrace::pixels
