#include "core/checksum/crc32.hpp"

#include "base/cpus.hpp"
#include "check.hpp"
#include "checksum/crc_by_bits.hpp"

using namespace headrace;
using namespace headrace::testing;

int main() {
    check(crc32(bytes_of("123456789")) == 0xCBF43926); // the check value of the CRC catalogue
    check(crc32({}) == 0);

    std::vector<std::byte> data(1000);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7 + i / 256);
    for (std::size_t begin = 0; begin < 20; ++begin)
        for (std::size_t end = begin; end <= data.size(); end += 13) {
            const Bytes part = Bytes(data).subspan(begin, end - begin);
            const std::uint32_t expected = crc_by_bits(part, 0xEDB88320U, 9);
            for (const Cpu& cpu : runnable_cpus()) check(crc32(part, 9, cpu) == expected);
            check(join_crc32(crc32(part), crc32(Bytes(data).first(begin)), begin) ==
                      crc32(Bytes(data).first(begin), crc32(part)),
                  "joined");
        }
}
