// Reading anything as a PNG, and as the stream in one: a fault, or as many bytes as were asked for.
#include <vector>

#include "core/png.hpp"

using namespace penstock;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 3) return 0;
    const Bytes input = std::as_bytes(std::span(data + 3, size - 3));
    std::vector<std::byte> out(data[0] * std::size_t{16});
    Inflater inflater;
    try {
        inflater.inflate(input, out);
    } catch (const FormatError&) {
    }
    if (input.size() < PngReader::head_bytes) return 0;
    const std::size_t pixel = 1 + data[1] % 8;
    PngReader reader(input.first(PngReader::head_bytes), {1 + data[2] % 32U, pixel * (1 + data[0] % 32U), pixel});
    out.resize(reader.image_bytes());
    for (const Bytes file : {input, input.first(input.size() - 1)}) {
        try {
            (void)reader.read(file, out.data());
        } catch (const FormatError&) {
        }
    }
    return 0;
}
