#include "bind/support.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <cerrno>
#include <unistd.h>

namespace penstock::bind {
namespace {

using Which = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// Fills [to, to + size) from `offset` of a file. Gives 0, or the errno; `missing` is what the file did not have.
int read_fully(int fd, std::byte* to, std::size_t size, std::uint64_t offset, std::size_t& missing) {
    while (size != 0) {
        const ssize_t got = pread(fd, to, size, static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno;
        if (got == 0) break;
        to += got;
        offset += static_cast<std::uint64_t>(got);
        size -= static_cast<std::size_t>(got);
    }
    missing = size;
    return 0;
}

nb::tuple read_ranges(nb::list fds, std::optional<Which> which, Indices offsets, Indices sizes) {
    const std::size_t count = offsets.shape(0);
    if (sizes.shape(0) != count || (which && which->shape(0) != count)) throw nb::value_error("which, offsets and sizes differ in length");
    std::vector<int> files;
    for (nb::handle fd : fds) files.push_back(nb::cast<int>(fd));
    const std::int32_t* const in = which ? which->data() : nullptr;
    std::vector<std::int64_t> starts(count);
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t number = in != nullptr ? static_cast<std::size_t>(in[i]) : 0;
        if (offsets.data()[i] < 0 || sizes.data()[i] < 0 || number >= files.size()) throw nb::value_error("a range that cannot be");
        starts[i] = static_cast<std::int64_t>(total);
        total += static_cast<std::uint64_t>(sizes.data()[i]);
    }
    Pool::Block block;
    int error = 0;
    std::size_t missing = 0;
    std::size_t failed = 0;
    {
        const std::int64_t* const at = offsets.data();
        const std::int64_t* const size = sizes.data();
        const nb::gil_scoped_release release;
        block = batch_pool()->take(total);
        for (std::size_t i = 0; i < count && error == 0 && missing == 0;) {
            // Ranges that follow one another in the file are one read.
            std::size_t last = i;
            while (last + 1 < count && at[last] + size[last] == at[last + 1] && (in == nullptr || in[last] == in[last + 1])) ++last;
            const auto bytes = static_cast<std::size_t>(at[last] + size[last] - at[i]);
            const int fd = files[in != nullptr ? static_cast<std::size_t>(in[i]) : 0];
            error = read_fully(fd, block.data() + starts[i], bytes, static_cast<std::uint64_t>(at[i]), missing);
            failed = i;
            i = last + 1;
        }
    }
    if (error != 0) {
        errno = error;
        PyErr_SetFromErrno(PyExc_OSError);
        throw nb::python_error();
    }
    if (missing != 0) {
        FormatError fault(Fault::truncated, static_cast<std::uint64_t>(offsets.data()[failed]), missing, 0);
        fault.record = static_cast<std::int64_t>(failed);
        throw fault;
    }
    Pool::Block places = batch_pool()->take(count * sizeof(std::int64_t));
    if (count != 0) std::memcpy(places.data(), starts.data(), count * sizeof(std::int64_t));
    return nb::make_tuple(to_numpy(std::move(block), nb::dtype<std::uint8_t>(), {static_cast<std::size_t>(total)}),
                          to_numpy(std::move(places), nb::dtype<std::int64_t>(), {count}));
}

} // namespace

void register_read(nb::module_& module) {
    module.def("read_ranges", &read_ranges, nb::arg("fds"), nb::arg("which").none(), nb::arg("offsets"), nb::arg("sizes"),
               nb::sig("def read_ranges(fds: list[int], which: numpy.typing.NDArray[numpy.int32] | None, offsets: "
                       "numpy.typing.NDArray[numpy.int64], sizes: numpy.typing.NDArray[numpy.int64]) -> "
                       "tuple[numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.int64]]"),
               "Ranges of open files, joined, and where each begins; neighbouring ranges are read in one go.");
}

} // namespace penstock::bind
#else
namespace penstock::bind {
void register_read(nb::module_&) {}
} // namespace penstock::bind
#endif
