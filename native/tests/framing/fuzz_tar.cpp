// Reads arbitrary bytes as headers of an archive: all that it finds lies in them.
#include "core/framing/tar.hpp"

using namespace headrace;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const Bytes archive(reinterpret_cast<const std::byte*>(data), size);
    const tar::Members found = tar::scan(archive, 0, 1000);
    if (found.end > size) __builtin_trap();
    for (const tar::Member& file : found.files)
        if (file.begin > size || file.size > size - file.begin || file.name.empty()) __builtin_trap();
    return 0;
}
