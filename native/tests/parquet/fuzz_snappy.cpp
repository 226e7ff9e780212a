// Decompresses arbitrary bytes as a Snappy block, to any size. There must be no access out of bounds, and a plain
// decoder must agree.
#include <cstdlib>

#include "core/parquet/snappy.hpp"
#include "parquet/plain_snappy.hpp"

using namespace headrace;

namespace {

constexpr std::uint64_t most = 1 << 20;

void must(bool good) {
    if (!good) std::abort();
}

// In allocations of their own, so that the sanitizers see accesses outside them.
void decompress(Bytes bytes, std::size_t size) {
    const std::vector<std::byte> block(bytes.begin(), bytes.end());
    std::vector<std::byte> target(size);
    const bool done = parquet::decompress_snappy(block, target);
    const auto wanted = testing::decompress_plainly(block, most);
    must(done == (wanted && wanted->size() == size));
    must(!done || target == *wanted);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    const Bytes bytes(reinterpret_cast<const std::byte*>(data + 2), size - 2);
    const std::size_t target = data[0] | std::size_t{data[1]} << 8;
    decompress(bytes, target);
    // The same elements behind the right size, which otherwise is hard to find.
    std::vector<std::byte> block{static_cast<std::byte>(target | 128), static_cast<std::byte>(target >> 7 | 128),
                                 static_cast<std::byte>(target >> 14)};
    block.insert(block.end(), bytes.begin(), bytes.end());
    decompress(block, target);
    return 0;
}
