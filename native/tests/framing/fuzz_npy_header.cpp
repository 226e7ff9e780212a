// Parses arbitrary bytes: the result is a header or a fault.
#include "core/framing/npy_header.hpp"

using namespace headrace;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const Bytes file(reinterpret_cast<const std::byte*>(data), size);
    try {
        const npy::Header header = npy::parse(file, 1 << 20);
        if (header.data_offset > size) __builtin_trap();
    } catch (const FormatError&) {}
    return 0;
}
