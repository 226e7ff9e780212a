#include "bind/support.hpp"
#include "core/crc32c.hpp"

#include <algorithm>
#include <cstring>

namespace penstock::bind {
namespace {

// Letting go of the interpreter costs about as much as the sum of a few hundred bytes.
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

} // namespace

void register_crc32c(nb::module_& module) {
    module.def(
        "crc32c", guarded([](nb::object data) { return sum_of(data, [](Bytes bytes) { return crc32c(bytes); }); }), nb::arg("data"),
        nb::sig("def crc32c(data: collections.abc.Buffer) -> int"), "CRC-32C of the bytes.");
    module.def(
        "masked_crc32c", guarded([](nb::object data) { return mask_crc(sum_of(data, [](Bytes bytes) { return crc32c(bytes); })); }),
        nb::arg("data"), nb::sig("def masked_crc32c(data: collections.abc.Buffer) -> int"),
        "CRC-32C, masked as TFRecord files store it.");
    module.def(
        "crc32c_by_tables", [](nb::object data) { return sum_of(data, [](Bytes bytes) { return crc32c_by_tables(bytes); }); },
        nb::arg("data"), nb::sig("def crc32c_by_tables(data: collections.abc.Buffer) -> int"),
        "CRC-32C without the processor's instruction.");
    module.def("crc32c_blocks", guarded(&sums_of_blocks), nb::arg("data"), nb::arg("block_bytes"),
               nb::sig("def crc32c_blocks(data: collections.abc.Buffer, block_bytes: int) -> numpy.typing.NDArray[numpy.uint32]"),
               "CRC-32C of each block of the bytes; the last one may be shorter.");
    module.def("crc32c_engine", &crc32c_engine, "How CRC-32C is computed here: 'sse4.2', 'armv8' or 'table'.");
}

} // namespace penstock::bind
