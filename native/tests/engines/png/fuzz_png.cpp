// Decodes arbitrary bytes as PNG, and as the stream in one. Results and errors must match those of zlib and libpng.
#include <algorithm>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include <png.h>
#include <zlib.h>

#include "core/engines/png/decoder.hpp"

using namespace headrace;

namespace {

constexpr std::size_t most_bytes = std::size_t{1} << 18; // per image

void must(bool good) {
    if (!good) std::abort();
}

std::uint32_t big_endian(const std::uint8_t* at) {
    return std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 | at[3];
}

void append(std::vector<std::uint8_t>& to, std::uint64_t number) {
    for (int shift = 24; shift >= 0; shift -= 8) to.push_back(static_cast<std::uint8_t>(number >> shift));
}

/// Inflates a stream with zlib. Empty if it is invalid or exceeds `most_bytes`.
std::vector<std::uint8_t> inflate_with_zlib(std::span<const std::uint8_t> stream, bool& is_sound, int window_bits) {
    std::vector<std::uint8_t> out(most_bytes);
    z_stream state{};
    must(inflateInit2(&state, window_bits) == Z_OK);
    state.next_in = const_cast<Bytef*>(stream.data());
    state.avail_in = static_cast<uInt>(stream.size());
    state.next_out = out.data();
    state.avail_out = static_cast<uInt>(out.size());
    is_sound = inflate(&state, Z_FINISH) == Z_STREAM_END;
    out.resize(out.size() - state.avail_out);
    inflateEnd(&state);
    return out;
}

/// With the right size, our inflater must accept exactly the streams that zlib accepts, with the same output.
void check_stream(std::span<const std::uint8_t> stream, std::size_t other_size) {
    bool is_sound = false;
    const std::vector<std::uint8_t> wanted = inflate_with_zlib(stream, is_sound, 15);
    for (const std::size_t size : {wanted.size(), other_size}) {
        std::vector<std::byte> out(size);
        bool is_taken = true;
        try {
            Inflater().inflate(std::as_bytes(stream), out);
        } catch (const FormatError&) {
            is_taken = false;
        }
        must(is_taken == (is_sound && size == wanted.size()));
        must(!is_taken || std::ranges::equal(out, std::as_bytes(std::span(wanted))));
    }
}

struct Source {
    std::span<const std::uint8_t> rest;
};

void read_bytes(png_structp png, png_bytep to, std::size_t size) {
    auto* const source = static_cast<Source*>(png_get_io_ptr(png));
    if (size > source->rest.size()) png_error(png, "ends");
    std::memcpy(to, source->rest.data(), size);
    source->rest = source->rest.subspan(size);
}

[[noreturn]] void leave(png_structp png, png_const_charp /*why*/) { png_longjmp(png, 1); }

void say_nothing(png_structp /*png*/, png_const_charp /*why*/) {}

/// The samples as libpng reads them, of packed pixels too. Both sides ignore checksums of chunks without pixels.
bool decode_with_libpng(std::span<const std::uint8_t> file, std::uint8_t* out, std::size_t height,
                        std::size_t row_bytes) {
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, leave, say_nothing);
    png_infop info = png_create_info_struct(png);
    Source source{file};
    if (setjmp(png_jmpbuf(png)) != 0) {
        png_destroy_read_struct(&png, &info, nullptr);
        return false;
    }
    png_set_read_fn(png, &source, read_bytes);
    png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_QUIET_USE);
    png_read_info(png, info);
    if (png_get_bit_depth(png, info) < 8 || png_get_color_type(png, info) == PNG_COLOR_TYPE_PALETTE)
        png_set_expand(png);
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) != row_bytes) png_longjmp(png, 1);
    for (std::size_t row = 0; row < height; ++row) png_read_row(png, out + row * row_bytes, nullptr);
    png_destroy_read_struct(&png, &info, nullptr);
    return true;
}

struct Kind {
    PngRows rows;
    std::optional<PngPacking> packing;
    [[nodiscard]] std::size_t row_samples() const {
        return packing ? packing->width * packing->channels : rows.row_bytes;
    }
};

/// The same checks as in Python: which files are accepted, and their row layout. A palette has this many channels.
std::optional<Kind> kind_of(std::span<const std::uint8_t> file, std::size_t palette_channels) {
    constexpr std::string_view begin("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
    if (file.size() < PngReader::head_bytes || std::memcmp(file.data(), begin.data(), begin.size()) != 0)
        return std::nullopt;
    const std::uint8_t* const head = file.data();
    if (crc32(0, head + 12, 17) != big_endian(head + 29)) return std::nullopt;
    const std::uint32_t width = big_endian(head + 16), height = big_endian(head + 20);
    if (width == 0 || height == 0 || width > 4096 || height > 4096) return std::nullopt;
    const unsigned bits = head[24], colours = head[25];
    if (head[26] != 0 || head[27] != 0 || head[28] != 0) return std::nullopt;
    const bool is_small = bits == 1 || bits == 2 || bits == 4;
    std::optional<Kind> found;
    if ((colours == 0 && is_small) || (colours == 3 && (is_small || bits == 8))) {
        const std::size_t channels = colours == 0 ? 1 : palette_channels;
        found = {{height, (width * bits + 7) / 8, 1}, PngPacking{width, bits, channels}};
    } else {
        const std::size_t channels = colours == 0 ? 1 : colours == 2 ? 3 : colours == 4 ? 2 : colours == 6 ? 4 : 0;
        if ((bits != 8 && bits != 16) || channels == 0) return std::nullopt;
        const std::size_t pixel = channels * bits / 8;
        found = {{height, width * pixel, pixel}, std::nullopt};
    }
    if (found->row_samples() * height > most_bytes) return std::nullopt;
    return found;
}

void check_file(std::span<const std::uint8_t> file) {
    for (const std::size_t palette_channels : {3U, 4U}) {
        const auto kind = kind_of(file, palette_channels);
        if (!kind) continue;
        const Bytes bytes = std::as_bytes(file);
        PngReader reader(bytes.first(PngReader::head_bytes), kind->rows, kind->packing);
        std::vector<std::byte> out(reader.image_bytes());
        bool is_taken = false;
        try {
            is_taken = reader.may_hold(bytes) && reader.read(bytes, out.data());
        } catch (const FormatError&) {}
        std::vector<std::uint8_t> wanted(out.size());
        if (is_taken)
            must(decode_with_libpng(file, wanted.data(), kind->rows.height, kind->row_samples()) &&
                 std::memcmp(out.data(), wanted.data(), out.size()) == 0);
    }
}

void append_chunk(std::vector<std::uint8_t>& file, const char* name, std::span<const std::uint8_t> content) {
    append(file, content.size());
    const std::size_t begin = file.size();
    file.insert(file.end(), name, name + 4);
    file.insert(file.end(), content.begin(), content.end());
    append(file, crc32(0, file.data() + begin, static_cast<uInt>(file.size() - begin)));
}

/// A PNG with valid checksums around compressed data, which a fuzzer would not find by itself.
std::vector<std::uint8_t> as_file(const std::uint8_t* kind, std::span<const std::uint8_t> deflated) {
    bool is_sound = false;
    const std::vector<std::uint8_t> content = inflate_with_zlib(deflated, is_sound, -15);
    std::vector<std::uint8_t> stream{0x78, 0x01};
    stream.insert(stream.end(), deflated.begin(), deflated.end());
    append(stream, adler32(1, content.data(), static_cast<uInt>(content.size())));
    check_stream(stream, content.size() + kind[0]);
    const unsigned packed = kind[0] >> 4 & 7; // 1 to 3: a grey of few bits; more: a palette
    const std::uint8_t colours = packed > 3 ? 3 : packed != 0 ? 0 : static_cast<std::uint8_t>("\0\2\4\6"[kind[0] & 3]);
    const std::size_t channels = colours == 0 || colours == 3 ? 1 : colours == 2 ? 3 : colours == 4 ? 2 : 4;
    const unsigned bits = packed != 0 ? 1U << ((packed - 1) % 3 + (packed == 7 ? 3 : 0)) : (kind[0] & 4) != 0 ? 16 : 8;
    const std::size_t width = 1 + kind[1] % 64, row = 1 + (width * channels * bits + 7) / 8;
    std::vector<std::uint8_t> file{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'}, head;
    append(head, width);
    append(head, std::max<std::size_t>(1, content.size() / row + (kind[0] >> 7)));
    for (const unsigned byte : {bits, unsigned{colours}, 0U, 0U, 0U}) head.push_back(static_cast<std::uint8_t>(byte));
    append_chunk(file, "IHDR", head);
    if (colours == 3) {
        std::vector<std::uint8_t> palette, alpha;
        const unsigned size = 1 + (kind[1] | 0xF0U) % (1U << bits);
        for (unsigned i = 0; i < size * 3; ++i) palette.push_back(static_cast<std::uint8_t>(i * 37));
        for (unsigned i = 0; i < kind[2] % (size + 2); ++i) alpha.push_back(static_cast<std::uint8_t>(i * 91));
        append_chunk(file, "PLTE", palette);
        if (!alpha.empty()) append_chunk(file, "tRNS", alpha);
    }
    const std::size_t cut = kind[2] % (stream.size() + 1);
    append_chunk(file, "IDAT", std::span(stream).first(cut));
    if ((kind[0] & 8) != 0) append_chunk(file, "IDAT", {});
    append_chunk(file, "IDAT", std::span(stream).subspan(cut));
    append_chunk(file, "IEND", {});
    return file;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 3) return 0;
    const std::span input(data, size);
    check_stream(input, data[0] * std::size_t{16});
    check_file(input);
    check_file(as_file(data, input.subspan(3)));
    return 0;
}
