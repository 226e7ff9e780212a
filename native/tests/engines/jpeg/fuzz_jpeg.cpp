// Decodes arbitrary bytes as JPEG. The result must be an error or libjpeg-turbo's pixels, with both kinds of kernels. A
// part of a valid image must be that of the whole one.
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>

#include "core/engines/jpeg/decoder.hpp"
#include "core/engines/jpeg/soundness.hpp"

using namespace headrace;

namespace {

struct Errors {
    jpeg_error_mgr base;
    std::jmp_buf back;
};

[[noreturn]] void leave(j_common_ptr image) { std::longjmp(reinterpret_cast<Errors*>(image->err)->back, 1); }

void say_nothing(j_common_ptr /*image*/) {}

/// Whether libjpeg-turbo decodes the image without any warning. No object here has a destructor, so longjmp is safe.
bool decode_with_libjpeg(const std::uint8_t* data, std::size_t size, std::uint8_t* out, std::size_t row_bytes) {
    jpeg_decompress_struct image{};
    Errors errors{};
    image.err = jpeg_std_error(&errors.base);
    errors.base.error_exit = leave;
    errors.base.output_message = say_nothing;
    if (setjmp(errors.back) != 0) {
        jpeg_destroy_decompress(&image);
        return false;
    }
    jpeg_create_decompress(&image);
    jpeg_mem_src(&image, data, static_cast<unsigned long>(size));
    jpeg_read_header(&image, TRUE);
    image.dct_method = JDCT_ISLOW;
    image.do_fancy_upsampling = TRUE;
    image.out_color_space = image.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&image);
    while (image.output_scanline < image.output_height) {
        JSAMPROW row = out + image.output_scanline * row_bytes;
        jpeg_read_scanlines(&image, &row, 1);
    }
    jpeg_finish_decompress(&image);
    const bool is_sound = errors.base.num_warnings == 0;
    jpeg_destroy_decompress(&image);
    return is_sound;
}

/// Some part of an image, shrunk by `shrink`; which one depends on the length of the file.
jpeg::Region part_of(const jpeg::Header& header, std::size_t shrink, std::size_t size) {
    const std::size_t width = jpeg::shrunk(header.width, shrink), height = jpeg::shrunk(header.height, shrink);
    const std::size_t left = size % width, top = size / 7 % height;
    return {left, top, 1 + size / 3 % (width - left), 1 + size / 5 % (height - top), shrink};
}

/// Whether both kinds of kernels decode parts to the same pixels, which must match the whole image (null: it is
/// damaged).
void check_parts(Bytes file, const jpeg::Header& header, const std::uint8_t* whole) {
    for (std::size_t shrink = 1; shrink <= jpeg::most_shrink(header); shrink *= 2) {
        const jpeg::Region part = part_of(header, shrink, file.size());
        const std::size_t row_bytes = part.width * header.channels;
        std::vector<std::uint8_t> pixels(part.height * row_bytes);
        const bool is_plain = jpeg::Decoder(jpeg::plain_kernels()).decode(file, header, part, pixels.data());
        if (whole != nullptr && !is_plain) std::abort();
        if (const jpeg::Kernels* const vector = jpeg::vector_kernels()) {
            std::vector<std::uint8_t> others(pixels.size());
            if (jpeg::Decoder(*vector).decode(file, header, part, others.data()) != is_plain) std::abort();
            if (is_plain && others != pixels) std::abort();
        }
        if (whole == nullptr || shrink != 1) continue;
        for (std::size_t row = 0; row < part.height; ++row) {
            const std::uint8_t* const from = whole + ((part.top + row) * header.width + part.left) * header.channels;
            if (!std::equal(from, from + row_bytes, pixels.data() + row * row_bytes)) std::abort();
        }
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const Bytes file(reinterpret_cast<const std::byte*>(data), size);
    const jpeg::Soundness soundness = jpeg::soundness(file);
    const auto header = jpeg::plain_header(file);
    if (!header || std::size_t{header->height} * header->width > 1 << 16) return 0;
    const std::size_t row_bytes = std::size_t{header->width} * header->channels;
    std::vector<std::uint8_t> pixels(header->height * row_bytes);
    const bool is_plain = jpeg::Decoder(jpeg::plain_kernels()).decode(file, *header, pixels.data());
    if (const jpeg::Kernels* const vector = jpeg::vector_kernels()) {
        std::vector<std::uint8_t> others(pixels.size());
        if (jpeg::Decoder(*vector).decode(file, *header, others.data()) != is_plain || (is_plain && others != pixels))
            std::abort();
    }
    std::vector<std::uint8_t> wanted(pixels.size());
    if (is_plain && (!decode_with_libjpeg(data, size, wanted.data(), row_bytes) || wanted != pixels)) std::abort();
    if (is_plain && soundness != jpeg::Soundness::sound) std::abort();
    check_parts(file, *header, is_plain ? pixels.data() : nullptr);
    return 0;
}
