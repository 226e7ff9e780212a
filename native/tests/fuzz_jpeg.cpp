// Any bytes: pixels or none, never more; and the same ones by both kinds of kernels.
#include "core/jpeg.hpp"

#include <cstdlib>

using namespace penstock;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const Bytes file(reinterpret_cast<const std::byte*>(data), size);
    const auto header = jpeg::plain_header(file);
    if (!header || std::size_t{header->height} * header->width > 1 << 16) return 0;
    std::vector<std::uint8_t> pixels(std::size_t{header->height} * header->width * header->channels);
    const bool is_plain = jpeg::Decoder(jpeg::plain_kernels()).decode(file, *header, pixels.data());
    const jpeg::Kernels* const vector = jpeg::vector_kernels();
    if (vector == nullptr) return 0;
    std::vector<std::uint8_t> others(pixels.size());
    if (jpeg::Decoder(*vector).decode(file, *header, others.data()) != is_plain || (is_plain && others != pixels)) std::abort();
    return 0;
}
