#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>

#include "bind/support.hpp"
#include "core/base/shared_loop.hpp"
#include "core/engines/jpeg/decoder.hpp"
#include "core/pixels/geometry.hpp"
#include "core/pixels/layout.hpp"
#include "core/pixels/resize.hpp"

namespace headrace::bind {
namespace {

using pixels::Box;
using pixels::Filter;
using pixels::Geometry;
using pixels::Layout;
using pixels::Size;
using pixels::View;
using Draws = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Image = nb::ndarray<const std::uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Values = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Pair = std::array<double, 2>;

/// A shrunk decoding must leave this much for the filter to shrink, as with the `reducing_gap` of Pillow. With 2
/// instead of 3, photographs differ twice as much from those that are decoded whole.
constexpr double room = 3;
/// The largest side that an image may get.
constexpr std::size_t most_side = 65535;

constexpr std::array<std::string_view, 5> filters = {"nearest", "box", "bilinear", "bicubic", "lanczos"};

Size size_of(nb::handle pair) {
    const auto [height, width] = nb::cast<std::pair<std::size_t, std::size_t>>(pair);
    if (height < 1 || width < 1 || height > most_side || width > most_side) {
        throw nb::value_error("a side has 1 to 65535 pixels");
    }
    return {height, width};
}

/// The size of a result. With only the shorter side given, the longer one may exceed what an image may be resized to.
Size result_size_of(nb::handle pair) {
    const auto [height, width] = nb::cast<std::pair<std::size_t, std::size_t>>(pair);
    constexpr std::size_t most_bytes_of_pixel = 4 * sizeof(float);
    if (height < 1 || width < 1 || height > SIZE_MAX / most_bytes_of_pixel / width) {
        throw nb::value_error("a result has pixels, and fits in memory");
    }
    return {height, width};
}

Pair range_of(nb::handle pair) {
    const auto [low, high] = nb::cast<std::pair<double, double>>(pair);
    if (!(low > 0 && high >= low && high <= 1e6)) throw nb::value_error("a range has two positive ends in order");
    return {low, high};
}

/// What one thread needs to make views.
struct Maker {
    Maker() : resizer(kernels()), decoder(jpeg_kernels()) {}

    static const pixels::ResizeKernels& kernels() {
        const pixels::ResizeKernels* const vector = pixels::vector_resize_kernels();
        return vector != nullptr ? *vector : pixels::plain_resize_kernels();
    }
    static const jpeg::Kernels& jpeg_kernels() {
        const jpeg::Kernels* const vector = jpeg::vector_kernels();
        return vector != nullptr ? *vector : jpeg::plain_kernels();
    }

    void shrink() noexcept {
        resizer.shrink();
        decoder.shrink();
        for (auto* each : {&decoded, &resized}) {
            if (each->capacity() > jpeg::kept_pixels * 4) *each = {};
        }
    }

    pixels::Resizer resizer;
    jpeg::Decoder decoder;
    std::vector<std::uint8_t> decoded, resized;
};

Maker& maker() {
    thread_local Maker kept;
    return kept;
}

/// What to do with images, and how their pixels stand in a batch.
class ImageViews {
  public:
    ImageViews(nb::object crop, nb::object resize, nb::object centre, bool may_flip, std::string_view interpolation,
               bool is_planar, std::optional<Values> values) {
        geometry_.may_flip = may_flip;
        if (!crop.is_none()) {
            const auto [size, scale, ratio] = nb::cast<std::tuple<nb::object, nb::object, nb::object>>(crop);
            geometry_.crop = {size_of(size), range_of(scale), range_of(ratio)};
        }
        if (nb::isinstance<nb::int_>(resize)) {
            geometry_.shorter = size_of(nb::make_tuple(resize, resize)).height;
        } else if (!resize.is_none()) {
            geometry_.resize = size_of(resize);
        }
        if (!centre.is_none()) geometry_.centre = size_of(centre);
        const auto found = std::find(filters.begin(), filters.end(), interpolation);
        if (found == filters.end()) throw nb::value_error("there is no such interpolation");
        filter_ = static_cast<Filter>(found - filters.begin());
        layout_.is_planar = is_planar;
        if (!values) return;
        if (values->shape(1) != 256) throw nb::value_error("a channel has 256 values");
        for (std::size_t channel = 0; channel < values->shape(0); ++channel) {
            std::copy_n(values->data() + channel * 256, 256, layout_.values.emplace_back().begin());
        }
    }

    [[nodiscard]] std::size_t draws() const noexcept { return geometry_.draws(); }

    [[nodiscard]] nb::object size(std::size_t height, std::size_t width) const {
        constexpr std::array<double, Geometry::most_draws> any{};
        if (height < 1 || width < 1) return nb::none();
        const std::optional<View> view = geometry_.view({height, width}, any.data());
        return view ? nb::object(nb::make_tuple(view->window.height, view->window.width)) : nb::none();
    }

    void check_draws(const Draws& draws, std::size_t images) const {
        if (draws.shape(0) != images || draws.shape(1) < geometry_.draws()) {
            throw nb::value_error("every image needs its random numbers");
        }
        const double* const end = draws.data() + draws.size();
        if (!std::all_of(draws.data(), end, [](double draw) { return draw >= 0 && draw < 1; })) {
            throw nb::value_error("random numbers are at least 0 and below 1");
        }
    }

    void check_layout(std::size_t channels) const {
        if (channels < 1 || channels > 4) throw nb::value_error("an image has 1 to 4 channels");
        if (!layout_.values.empty() && layout_.values.size() != channels) {
            throw nb::value_error("there are values for another number of channels");
        }
    }

    [[nodiscard]] std::size_t bytes_of(Size size, std::size_t channels) const noexcept {
        return size.height * size.width * channels * layout_.sample_size();
    }

    /// One view of an image in memory. False if it has not the size of `out`.
    [[nodiscard]] bool apply(const Image& image, const Draws& draws, const Out& out) const {
        const Size size{image.shape(0), image.shape(1)};
        const std::size_t channels = image.shape(2);
        check_layout(channels);
        check_draws(draws, 1);
        if (size.height < 1 || size.width < 1) throw nb::value_error("an image has pixels");
        const std::optional<View> view = geometry_.view(size, draws.data());
        if (!view || bytes_of({view->window.height, view->window.width}, channels) != out.size()) return false;
        const nb::gil_scoped_release release;
        maker().resizer.plan(*view, size, filter_);
        const Box& needed = maker().resizer.needed();
        const std::size_t stride = size.width * channels;
        finish({image.data() + needed.top * stride + needed.left * channels, stride}, *view, channels, out.data());
        maker().shrink();
        return true;
    }

    /// One view of a plain JPEG. False if it is none, or not sound, or its view has another size.
    [[nodiscard]] bool apply(Bytes file, const double* draws, Size size, std::size_t channels, std::size_t most_pixels,
                             std::uint8_t* out) const {
        const std::optional<jpeg::Header> header = jpeg::plain_header(file);
        if (!header || header->channels != channels) return false;
        if (std::size_t{header->height} * header->width > most_pixels) return false;
        const Size image{header->height, header->width};
        const std::optional<View> view = geometry_.view(image, draws);
        if (!view || Size{view->window.height, view->window.width} != size) return false;
        const std::size_t shrink = filter_ == Filter::nearest || filter_ == Filter::box
                                       ? 1
                                       : pixels::shrink_for(*view, jpeg::most_shrink(*header), room);
        Maker& use = maker();
        use.resizer.plan(*view, image, filter_, shrink);
        const Box& needed = use.resizer.needed();
        use.decoded.resize(needed.height * needed.width * channels);
        const jpeg::Region region{needed.left, needed.top, needed.width, needed.height, shrink};
        if (!use.decoder.decode(file, *header, region, use.decoded.data())) return false;
        finish({use.decoded.data(), needed.width * channels}, *view, channels, out);
        return true;
    }

  private:
    void finish(pixels::Pixels from, const View& view, std::size_t channels, std::uint8_t* out) const {
        Maker& use = maker();
        if (layout_.values.empty() && (!layout_.is_planar || channels == 1)) {
            return use.resizer.run(from, channels, out);
        }
        use.resized.resize(view.window.height * view.window.width * channels);
        use.resizer.run(from, channels, use.resized.data());
        layout_.write(use.resized.data(), {view.window.height, view.window.width}, channels, out);
    }

    Geometry geometry_;
    Filter filter_ = Filter::bilinear;
    Layout layout_;
};

nb::tuple decode_jpeg_views(nb::list images, const ImageViews& views, const Draws& draws, nb::handle shape,
                            std::size_t channels, std::size_t most_pixels) {
    const Size size = result_size_of(shape);
    std::vector<Buffer> held;
    held.reserve(images.size());
    for (nb::handle object : images) held.emplace_back(object);
    views.check_layout(channels);
    views.check_draws(draws, held.size());
    const std::size_t bytes = views.bytes_of(size, channels);
    if (held.size() > SIZE_MAX / bytes) throw nb::value_error("more bytes than memory can hold");
    std::vector<std::uint8_t> is_missed(held.size());
    Pool::Block block;
    {
        const nb::gil_scoped_release release;
        block = batch_pool()->take(held.size() * bytes);
        auto* const out = reinterpret_cast<std::uint8_t*>(block.data());
        SharedLoop::run(held.size(), [&](SharedLoop::Items& items) {
            while (const std::optional<std::size_t> i = items.next()) {
                const double* const drawn = draws.data() + *i * draws.shape(1);
                is_missed[*i] = !views.apply(held[*i].bytes(), drawn, size, channels, most_pixels, out + *i * bytes);
            }
            maker().shrink();
        });
    }
    return nb::make_tuple(to_numpy(std::move(block), nb::dtype<std::uint8_t>(), {held.size(), bytes}),
                          positions_of(is_missed));
}

} // namespace

void register_views(nb::module_& module) {
    nb::class_<ImageViews>(module, "ImageViews",
                           "How to crop, resize and flip images, and the layout of their pixels in a batch.")
        .def(nb::init<nb::object, nb::object, nb::object, bool, std::string_view, bool, std::optional<Values>>(),
             nb::kw_only(), nb::arg("crop").none(), nb::arg("resize").none(), nb::arg("center_crop").none(),
             nb::arg("flip"), nb::arg("interpolation"), nb::arg("is_planar"), nb::arg("values").none(),
             nb::sig("def __init__(self, *, crop: tuple[tuple[int, int], tuple[float, float], tuple[float, float]] | "
                     "None, resize: int | tuple[int, int] | None, center_crop: tuple[int, int] | None, flip: bool, "
                     "interpolation: str, is_planar: bool, values: numpy.typing.NDArray[numpy.float32] | None) -> "
                     "None"))
        .def("draws", &ImageViews::draws, "How many random numbers an image needs.")
        .def("size", &ImageViews::size, nb::arg("height"), nb::arg("width"),
             nb::sig("def size(self, height: int, width: int) -> tuple[int, int] | None"),
             "The height and width of a view of an image of this size; None if the image is too small.")
        .def(
            "apply",
            [](const ImageViews& views, const Image& image, const Draws& draws, const Out& out) {
                return views.apply(image, draws, out);
            },
            nb::arg("image"), nb::arg("draws"), nb::arg("out"),
            nb::sig("def apply(self, image: numpy.typing.NDArray[numpy.uint8], draws: "
                    "numpy.typing.NDArray[numpy.float64], out: numpy.typing.NDArray[numpy.uint8]) -> bool"),
            "Write a view of an image (height, width, channels) to the bytes of `out`. False if it has another size.");
    module.def("decode_jpeg_views", guarded(&decode_jpeg_views), nb::arg("images"), nb::arg("views"), nb::arg("draws"),
               nb::arg("size"), nb::arg("channels"), nb::arg("most_pixels"),
               nb::sig("def decode_jpeg_views(images: list[typing.Any], views: ImageViews, draws: "
                       "numpy.typing.NDArray[numpy.float64], size: tuple[int, int], channels: int, most_pixels: int) "
                       "-> tuple[numpy.typing.NDArray[numpy.uint8], list[int]]"),
               "Views of JPEGs as bytes, uint8 (n, bytes), and the positions of images that are not plain, are "
               "damaged, or have a view of another size. Their bytes are not written.");
}

} // namespace headrace::bind
