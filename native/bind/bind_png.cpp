#include "bind/support.hpp"
#include "core/png_rows.hpp"

namespace penstock::bind {
namespace {

nb::object unfilter(nb::list streams, std::size_t height, std::size_t row_bytes, std::size_t pixel_bytes) {
    std::vector<Buffer> held;
    held.reserve(streams.size());
    for (nb::handle object : streams) held.emplace_back(object);
    if (pixel_bytes < 1 || pixel_bytes > 8) throw nb::value_error("a pixel has 1 to 8 bytes");
    const std::size_t count = held.size();
    if (row_bytes != 0 && height > SIZE_MAX / row_bytes) throw nb::value_error("more bytes than memory can hold");
    const std::size_t image = height * row_bytes;
    for (std::size_t i = 0; i < count; ++i) { // Before the memory is taken: the sizes are what somebody said.
        if (held[i].bytes().size() == image + height) continue;
        FormatError error(Fault::wrong_count, 0, image + height, held[i].bytes().size());
        error.record = static_cast<std::int64_t>(i);
        throw error;
    }
    if (image != 0 && count > SIZE_MAX / image) throw nb::value_error("more bytes than memory can hold");
    Pool::Block block;
    {
        const nb::gil_scoped_release release;
        block = batch_pool()->take(count * image);
        for (std::size_t i = 0; i < count; ++i) {
            try {
                unfilter_png(held[i].bytes(), {height, row_bytes, pixel_bytes}, block.data() + i * image);
            } catch (FormatError& error) {
                error.record = static_cast<std::int64_t>(i);
                throw;
            }
        }
    }
    return to_numpy(std::move(block), nb::dtype<std::uint8_t>(), {count, image});
}

} // namespace

void register_png(nb::module_& module) {
    module.def("unfilter_png", &unfilter, nb::arg("streams"), nb::arg("height"), nb::arg("row_bytes"), nb::arg("pixel_bytes"),
               nb::sig("def unfilter_png(streams: list[typing.Any], height: int, row_bytes: int, pixel_bytes: int) -> "
                       "numpy.typing.NDArray[numpy.uint8]"),
               "The samples of PNG images of one size, from their decompressed streams: uint8 (n, height * row_bytes).");
}

} // namespace penstock::bind
