#include "bind/support.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>

namespace headrace::bind {
namespace {

/// Fills [to, to + size) from `offset` of a file. Returns 0 or the errno. Sets `missing` to the number of bytes past
/// the end of the file.
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
    if (sizes.shape(0) != count || (which && which->shape(0) != count))
        throw nb::value_error("which, offsets and sizes differ in length");
    std::vector<int> files;
    for (nb::handle fd : fds) files.push_back(nb::cast<int>(fd));
    const std::int32_t* const in = which ? which->data() : nullptr;
    std::vector<std::int64_t> starts(count);
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t number = in != nullptr ? static_cast<std::size_t>(in[i]) : 0;
        if (offsets.data()[i] < 0 || sizes.data()[i] < 0 || number >= files.size())
            throw nb::value_error("a range that cannot be");
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
            // Adjacent ranges become one read.
            std::size_t last = i;
            while (last + 1 < count && at[last] + size[last] == at[last + 1] &&
                   (in == nullptr || in[last] == in[last + 1]))
                ++last;
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

/// The result for one of many files is 0, an errno, or this.
constexpr std::int64_t otherwise = -1;

/// Reads a file that should consist of `head` and `size` further bytes, which go to `to`. `spare` has head.size() + 1
/// bytes.
std::int64_t read_file(const char* path, std::string_view head, std::byte* to, std::size_t size, std::string& spare) {
    int fd = -1;
    do fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    if (fd < 0) return errno;
    // One call reads head, body and any surplus byte.
    iovec parts[3] = {{spare.data(), head.size()}, {to, size}, {spare.data() + head.size(), 1}};
    const std::size_t whole = head.size() + size;
    ssize_t got = -1;
    do got = readv(fd, parts, 3);
    while (got < 0 && errno == EINTR);
    std::int64_t status = got < 0 ? errno : 0;
    if (got > 0 && std::cmp_less(got, whole) && static_cast<std::size_t>(got) >= head.size()) {
        // Interrupted by a signal, or larger than one call reads. A file that is too short ends here.
        const std::size_t have = static_cast<std::size_t>(got) - head.size();
        std::size_t missing = 0;
        status = read_fully(fd, to + have, size - have, static_cast<std::uint64_t>(got), missing);
        if (status == 0 && (missing != 0 || pread(fd, spare.data() + head.size(), 1, static_cast<off_t>(whole)) != 0))
            status = otherwise;
    } else if (status == 0 && std::cmp_not_equal(got, whole)) {
        status = otherwise;
    }
    close(fd);
    if (status == 0 && std::memcmp(spare.data(), head.data(), head.size()) != 0) status = otherwise;
    return status;
}

nb::tuple read_files(nb::list paths, nb::bytes head, std::size_t size) {
    const std::size_t count = paths.size();
    std::vector<const char*> names;
    names.reserve(count);
    for (nb::handle path : paths) {
        const char* const name = PyBytes_AsString(path.ptr());
        if (name == nullptr) throw nb::python_error();
        names.push_back(name);
    }
    if (size != 0 && count > SIZE_MAX / size) throw nb::value_error("more bytes than memory can hold");
    Pool::Block block;
    Pool::Block outcome;
    {
        const std::string_view first(head.c_str(), head.size());
        const nb::gil_scoped_release release; // `paths` keeps the names alive, and no other code has this list.
        std::string spare(first.size() + 1, '\0');
        block = batch_pool()->take(count * size);
        outcome = batch_pool()->take(count * sizeof(std::int64_t));
        for (std::size_t i = 0; i < count; ++i) {
            const std::int64_t status = read_file(names[i], first, block.data() + i * size, size, spare);
            std::memcpy(outcome.data() + i * sizeof status, &status, sizeof status);
        }
    }
    return nb::make_tuple(to_numpy(std::move(block), nb::dtype<std::uint8_t>(), {count, size}),
                          to_numpy(std::move(outcome), nb::dtype<std::int64_t>(), {count}));
}

} // namespace

void register_read(nb::module_& module) {
    module.def("read_files", &read_files, nb::arg("paths"), nb::arg("head"), nb::arg("size"),
               nb::sig("def read_files(paths: list[bytes], head: bytes, size: int) -> "
                       "tuple[numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.int64]]"),
               "Read many small files, each of `head` and `size` bytes: those bytes, uint8 (n, size), and for each "
               "file 0, an errno, or -1 if its head or size differs (its bytes are then undefined).");
    module.def("read_ranges", &read_ranges, nb::arg("fds"), nb::arg("which").none(), nb::arg("offsets"),
               nb::arg("sizes"),
               nb::sig("def read_ranges(fds: list[int], which: numpy.typing.NDArray[numpy.int32] | None, offsets: "
                       "numpy.typing.NDArray[numpy.int64], sizes: numpy.typing.NDArray[numpy.int64]) -> "
                       "tuple[numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.int64]]"),
               "Ranges of open files, joined, and where each begins; neighbouring ranges are read in one go.");
}

} // namespace headrace::bind
#else
namespace headrace::bind {
void register_read(nb::module_&) {}
} // namespace headrace::bind
#endif
