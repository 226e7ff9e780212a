#include "bind/support.hpp"
#include "core/base/shared_loop.hpp"
#include "core/engines/jpeg/decoder.hpp"
#include "core/engines/jpeg/soundness.hpp"

namespace headrace::bind {
namespace {

using Pixels = nb::ndarray<std::uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

const jpeg::Kernels& kernels() {
    const jpeg::Kernels* const vector = jpeg::vector_kernels();
    return vector != nullptr ? *vector : jpeg::plain_kernels();
}

/// Reused, since most files have the same code tables as the one before.
jpeg::Decoder& decoder() {
    thread_local jpeg::Decoder kept(kernels());
    return kept;
}

bool decode_one(Bytes file, std::size_t height, std::size_t width, std::size_t channels, std::uint8_t* out) {
    const std::optional<jpeg::Header> header = jpeg::plain_header(file);
    if (!header || header->height != height || header->width != width || header->channels != channels) return false;
    return decoder().decode(file, *header, out);
}

nb::tuple decode_jpegs(nb::list images, std::size_t height, std::size_t width, std::size_t channels) {
    if (height > 65535 || width > 65535 || channels > 3) throw nb::value_error("no JPEG is of that shape");
    std::vector<Buffer> held;
    held.reserve(images.size());
    for (nb::handle object : images) held.emplace_back(object);
    const std::size_t size = height * width * channels;
    if (size != 0 && held.size() > SIZE_MAX / size) throw nb::value_error("more bytes than memory can hold");
    std::vector<std::uint8_t> is_missed(held.size());
    Pool::Block block;
    {
        const nb::gil_scoped_release release;
        block = batch_pool()->take(held.size() * size);
        auto* const out = reinterpret_cast<std::uint8_t*>(block.data());
        SharedLoop::run(held.size(), [&](SharedLoop::Items& items) {
            while (const std::optional<std::size_t> i = items.next())
                is_missed[*i] = !decode_one(held[*i].bytes(), height, width, channels, out + *i * size);
            decoder().shrink();
        });
    }
    return nb::make_tuple(to_numpy(std::move(block), nb::dtype<std::uint8_t>(), {held.size(), height, width, channels}),
                          positions_of(is_missed));
}

bool decode_jpeg_into(nb::handle image, const Pixels& out) {
    const Buffer held(image);
    const nb::gil_scoped_release release;
    const bool is_decoded = decode_one(held.bytes(), out.shape(0), out.shape(1), out.shape(2), out.data());
    decoder().shrink();
    return is_decoded;
}

std::optional<bool> is_jpeg_sound(nb::handle image) {
    const Buffer held(image);
    const nb::gil_scoped_release release;
    const jpeg::Soundness found = jpeg::soundness(held.bytes());
    if (found == jpeg::Soundness::unknown) return std::nullopt;
    return found == jpeg::Soundness::sound;
}

} // namespace

void register_jpeg(nb::module_& module) {
    module.def(
        "jpeg_is_fast", [] { return jpeg::vector_kernels() != nullptr; },
        "Whether this decoder is faster for plain JPEGs on this machine than libjpeg-turbo.");
    module.def("decode_jpegs", guarded(&decode_jpegs), nb::arg("images"), nb::arg("height"), nb::arg("width"),
               nb::arg("channels"),
               nb::sig("def decode_jpegs(images: list[typing.Any], height: int, width: int, channels: int) -> "
                       "tuple[numpy.typing.NDArray[numpy.uint8], list[int]]"),
               "Pixels of JPEGs of one shape, uint8 (n, height, width, channels), and the positions of images that "
               "have another shape, are not plain, or are damaged. Their pixels are not written.");
    module.def("decode_jpeg_into", guarded(&decode_jpeg_into), nb::arg("image"), nb::arg("out"),
               nb::sig("def decode_jpeg_into(image: typing.Any, out: numpy.typing.NDArray[numpy.uint8]) -> bool"),
               "Decode one JPEG into `out` (height, width, channels). False if `decode_jpegs` would skip it; the "
               "content of `out` is then undefined.");
    module.def(
        "is_jpeg_sound", guarded(&is_jpeg_sound), nb::arg("image"),
        nb::sig("def is_jpeg_sound(image: typing.Any) -> bool | None"),
        "Whether the codes of a JPEG are complete and intact, for the kinds whose library reports no damage. None "
        "if that is unknown: arithmetic and lossless files, and those without their own codes.");
}

} // namespace headrace::bind
