#include "core/checksum/crc32c.hpp"
#include "bind/support.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace headrace::bind {
namespace {

// Releasing the GIL costs about as much as the checksum of a few hundred bytes.
constexpr std::size_t worth_releasing = std::size_t{16} << 10;

template <typename Sum> std::uint32_t sum_of(nb::handle data, Sum sum) {
    const Buffer buffer(data);
    const Bytes bytes = buffer.bytes();
    if (bytes.size() < worth_releasing) return sum(bytes);
    const nb::gil_scoped_release release;
    return sum(bytes);
}

nb::object sums_of_blocks(nb::object data, std::size_t block_bytes) {
    if (block_bytes == 0) throw nb::value_error("blocks of no bytes");
    const Buffer buffer(data);
    const Bytes bytes = buffer.bytes();
    const std::size_t count = bytes.size() / block_bytes + (bytes.size() % block_bytes != 0 ? 1 : 0);
    Pool::Block sums;
    {
        const nb::gil_scoped_release release;
        sums = batch_pool()->take(count * sizeof(std::uint32_t));
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t start = i * block_bytes;
            const std::uint32_t sum = crc32c(bytes.subspan(start, std::min(block_bytes, bytes.size() - start)));
            std::memcpy(sums.data() + i * sizeof sum, &sum, sizeof sum);
        }
    }
    return to_numpy(std::move(sums), nb::dtype<std::uint32_t>(), {count});
}

using Sums = nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Marks = nb::ndarray<bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// The blocks that contain the ranges and were not compared yet, each once. All bytes after the last block count as one
/// more block: they have no checksum to compare with.
std::vector<std::size_t> blocks_to_compare(Indices starts, Indices stops, const Marks& sound, std::size_t block_bytes) {
    std::vector<std::size_t> blocks;
    for (std::size_t i = 0; i < starts.shape(0); ++i) {
        const std::int64_t start = starts.data()[i], stop = stops.data()[i];
        if (start < 0) throw nb::index_error("a range that begins before its buffer");
        if (stop <= start) continue;
        const std::size_t last = std::min((static_cast<std::size_t>(stop) - 1) / block_bytes, sound.shape(0));
        for (std::size_t block = static_cast<std::size_t>(start) / block_bytes; block <= last; ++block)
            if (block == sound.shape(0) || !sound.data()[block]) blocks.push_back(block);
    }
    std::ranges::sort(blocks);
    blocks.erase(std::ranges::unique(blocks).begin(), blocks.end());
    return blocks;
}

nb::tuple compare_blocks(nb::object data, Indices starts, Indices stops, const Sums& sums, const Marks& sound,
                         std::size_t block_bytes) {
    if (block_bytes == 0) throw nb::value_error("blocks of no bytes");
    if (starts.shape(0) != stops.shape(0)) throw nb::value_error("starts and stops differ in length");
    if (sums.shape(0) != sound.shape(0)) throw nb::value_error("sums and sound differ in length");
    const std::vector<std::size_t> blocks = blocks_to_compare(starts, stops, sound, block_bytes);
    if (blocks.empty()) return nb::make_tuple(-1, false);
    const Buffer buffer(data);
    const Bytes bytes = buffer.bytes();
    std::size_t good = 0;
    {
        const nb::gil_scoped_release release;
        for (; good < blocks.size(); ++good) {
            if (blocks[good] >= sums.shape(0) || blocks[good] >= (bytes.size() + block_bytes - 1) / block_bytes) break;
            const std::size_t start = blocks[good] * block_bytes;
            if (crc32c(bytes.subspan(start, std::min(block_bytes, bytes.size() - start))) != sums.data()[blocks[good]])
                break;
        }
    }
    if (GuardedRead* const guard = GuardedRead::current()) raise_if_lost(*guard); // before anything is marked as sound
    for (std::size_t i = 0; i < good; ++i) sound.data()[blocks[i]] = true;
    return nb::make_tuple(good == blocks.size() ? std::int64_t{-1} : static_cast<std::int64_t>(blocks[good]), true);
}

} // namespace

void register_crc32c(nb::module_& module) {
    module.def("crc32c",
               guarded([](nb::object data) { return sum_of(data, [](Bytes bytes) { return crc32c(bytes); }); }),
               nb::arg("data"), nb::sig("def crc32c(data: collections.abc.Buffer) -> int"), "CRC-32C of the bytes.");
    module.def("masked_crc32c", guarded([](nb::object data) {
                   return mask_crc(sum_of(data, [](Bytes bytes) { return crc32c(bytes); }));
               }),
               nb::arg("data"), nb::sig("def masked_crc32c(data: collections.abc.Buffer) -> int"),
               "CRC-32C, masked as TFRecord files store it.");
    module.def(
        "crc32c_by_tables",
        [](nb::object data) { return sum_of(data, [](Bytes bytes) { return crc32c(bytes, 0, Cpu{}); }); },
        nb::arg("data"), nb::sig("def crc32c_by_tables(data: collections.abc.Buffer) -> int"),
        "CRC-32C without the processor's instruction.");
    module.def(
        "crc32c_blocks", guarded(&sums_of_blocks), nb::arg("data"), nb::arg("block_bytes"),
        nb::sig(
            "def crc32c_blocks(data: collections.abc.Buffer, block_bytes: int) -> numpy.typing.NDArray[numpy.uint32]"),
        "CRC-32C of each block of the bytes; the last one may be shorter.");
    module.def(
        "compare_blocks", guarded(&compare_blocks), nb::arg("data"), nb::arg("starts"), nb::arg("stops"),
        nb::arg("sums"), nb::arg("sound"), nb::arg("block_bytes"),
        nb::sig("def compare_blocks(data: collections.abc.Buffer, starts: numpy.typing.NDArray[numpy.int64], stops: "
                "numpy.typing.NDArray[numpy.int64], sums: numpy.typing.NDArray[numpy.uint32], sound: "
                "numpy.typing.NDArray[numpy.bool_], "
                "block_bytes: int) -> tuple[int, bool]"),
        "Compare the CRC-32C of the blocks around some byte ranges, except blocks marked as sound, and mark those that "
        "agree. Returns the first that differs, or -1, and whether any was compared.");
    module.def(
        "crc32c_engine", [] { return crc32c_engine(); }, "How CRC-32C is computed here: 'sse4.2', 'armv8' or 'table'.");
}

} // namespace headrace::bind
