#include "core/checksum/crc32c.hpp"

#include "base/cpus.hpp"
#include "check.hpp"
#include "checksum/crc_by_bits.hpp"

using namespace headrace;
using namespace headrace::testing;

int main() {
    // RFC 3720, B.4, and the check value of the CRC catalogue.
    check(crc32c(bytes_of("123456789")) == 0xE3069283);
    check(crc32c(bytes_of(std::vector<std::byte>(32))) == 0x8A9136AA);
    check(crc32c(bytes_of(std::vector<std::byte>(32, std::byte{0xFF}))) == 0x62A8AB43);
    check(crc32c({}) == 0);

    std::vector<std::byte> data(9000);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 131 + i / 251);
    for (std::size_t size = 0; size < 7000; size += size < 2000 ? 1 : 37) {
        const Bytes part = Bytes(data).subspan(size % 9, size);
        const std::uint32_t expected = crc_by_bits(part, 0x82F63B78U);
        const std::size_t cut = size / 3;
        for (const Cpu& cpu : runnable_cpus()) {
            check(crc32c(part, 0, cpu) == expected);
            check(crc32c_prefetching(part, Bytes(data).first(size * 2 % 9000), cpu) == expected, "with a prefetch");
            check(crc32c(part.subspan(cut), crc32c(part.first(cut), 0, cpu), cpu) == expected, "continued");
        }
    }
    check(mask_crc(0) == 0xA282EAD8);
    check(std::string_view(crc32c_engine(Cpu{})) == "table");
    if (this_cpu.sse42) check(std::string_view(crc32c_engine()) == "sse4.2");
    if (this_cpu.crc) check(std::string_view(crc32c_engine()) == "armv8");
}
