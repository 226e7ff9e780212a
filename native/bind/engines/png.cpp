#include <atomic>

#include "bind/support.hpp"
#include "core/base/shared_loop.hpp"
#include "core/engines/png/decoder.hpp"

namespace headrace::bind {
namespace {

void refuse(PngReader& reader, Bytes file, std::size_t position) {
    if (reader.may_hold(file)) return;
    FormatError error(Fault::header, 0, reader.image_bytes(), file.size());
    error.record = static_cast<std::int64_t>(position);
    throw error;
}

/// Thrown for an image with another header, so that the first image that is not as it should be counts.
struct Unlike {};

nb::object decode_all(nb::sequence files, const PngRows& rows, const std::optional<PngPacking>& packing) {
    const HeldBuffers held(files);
    const std::vector<Bytes>& bytes = held.bytes;
    const std::size_t count = bytes.size();
    if (count == 0 || bytes[0].size() < PngReader::head_bytes)
        throw nb::value_error("there is no image that the others are like");
    const Bytes head = bytes[0].first(PngReader::head_bytes);
    PngReader first_reader(head, rows, packing);
    std::atomic<bool> is_taken = false;
    const std::size_t image = first_reader.image_bytes();
    Pool::Block block;
    try {
        const nb::gil_scoped_release release;
        for (std::size_t i = 0; i < count; ++i)
            refuse(first_reader, bytes[i], i); // before allocating what the files claim
        if (image != 0 && count > SIZE_MAX / image) throw FormatError(Fault::range, 0, SIZE_MAX / image, count);
        block = batch_pool()->take(count * image);
        SharedLoop::run(count, [&](SharedLoop::Items& items) {
            std::optional<PngReader> own;
            PngReader& reader = is_taken.exchange(true) ? own.emplace(head, rows, packing) : first_reader;
            while (const std::optional<std::size_t> i = items.next()) {
                try {
                    if (!reader.read(bytes[*i], block.data() + *i * image)) throw Unlike{};
                } catch (FormatError& error) {
                    error.record = static_cast<std::int64_t>(*i);
                    throw;
                }
            }
        });
    } catch (const Unlike&) {
        return nb::none();
    }
    return to_numpy(std::move(block), nb::dtype<std::uint8_t>(), {count, image});
}

nb::object decode(nb::sequence files, std::size_t height, std::size_t row_bytes, std::size_t pixel_bytes) {
    if (pixel_bytes < 1 || pixel_bytes > 8 || row_bytes % pixel_bytes != 0)
        throw nb::value_error("a pixel has 1 to 8 bytes");
    return decode_all(files, {height, row_bytes, pixel_bytes}, std::nullopt);
}

nb::object decode_packed(nb::sequence files, std::size_t height, std::size_t width, unsigned bits,
                         std::size_t channels) {
    if (bits != 1 && bits != 2 && bits != 4 && bits != 8) throw nb::value_error("a packed pixel has 1, 2, 4 or 8 bits");
    if (channels != 1 && channels != 3 && channels != 4) throw nb::value_error("a pixel has 1, 3 or 4 samples");
    if (width > std::size_t{1} << 31) throw nb::value_error("no PNG is that wide");
    return decode_all(files, {height, (width * bits + 7) / 8, 1}, PngPacking{width, bits, channels});
}

} // namespace

void register_png(nb::module_& module) {
    module.def(
        "decode_png", guarded(&decode), nb::arg("files"), nb::arg("height"), nb::arg("row_bytes"),
        nb::arg("pixel_bytes"),
        nb::sig("def decode_png(files: typing.Sequence[typing.Any], height: int, row_bytes: int, pixel_bytes: int) -> "
                "numpy.typing.NDArray[numpy.uint8] | None"),
        "The samples of PNG images that have the header of the first: uint8 (n, height * row_bytes); None where they "
        "have not.");
    module.def("decode_packed_png", guarded(&decode_packed), nb::arg("files"), nb::arg("height"), nb::arg("width"),
               nb::arg("bits"), nb::arg("channels"),
               nb::sig("def decode_packed_png(files: typing.Sequence[typing.Any], height: int, width: int, bits: int, "
                       "channels: int) -> numpy.typing.NDArray[numpy.uint8] | None"),
               "The samples of PNG images of fewer than 8 bits (`channels` 1), or with a palette (3 or 4), that have "
               "the header of the first: uint8 (n, height * width * channels); None where they have not.");
}

} // namespace headrace::bind
