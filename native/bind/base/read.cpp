#include "bind/support.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <pthread.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace headrace::bind {
namespace {

// A thread that reads here and there waits for a disk or a file server once for each place. If the system is asked for
// all places of a batch first, those work on many at a time. Asking costs a system call for each place, so it is only
// done while this thread has been waiting since it last looked, whether for places it had asked for or not.

#ifdef RUSAGE_THREAD
rusage usage() noexcept {
    rusage found{};
    (void)getrusage(RUSAGE_THREAD, &found);
    return found;
}
#endif

/// Whether this thread has read from a disk, or waited for a page of a mapped file.
bool has_read_from_disk() noexcept {
#ifdef RUSAGE_THREAD
    thread_local long before = 0;
    const rusage now = usage();
    const long reads = now.ru_inblock + now.ru_majflt;
    return std::exchange(before, reads) != reads;
#else
    return false;
#endif
}

/// While one exists, this thread only reads files. If it is put to sleep, that is because it waits for a file, also one
/// on a server, which `has_read_from_disk` does not see.
class OnlyReading {
  public:
#ifdef RUSAGE_THREAD
    OnlyReading() noexcept : before_(usage().ru_nvcsw) {}
    ~OnlyReading() { has_waited_ = usage().ru_nvcsw != before_; }
#else
    OnlyReading() noexcept = default;
    ~OnlyReading() = default;
#endif
    OnlyReading(const OnlyReading&) = delete;
    OnlyReading& operator=(const OnlyReading&) = delete;

    /// Whether this thread waited last time, or has read from a disk since.
    [[nodiscard]] static bool has_waited() noexcept {
        const bool has_read = has_read_from_disk();
        return has_waited_ || has_read;
    }

  private:
#ifdef RUSAGE_THREAD
    long before_;
#endif
    static thread_local bool has_waited_;
};

thread_local bool OnlyReading::has_waited_ = false;

/// As much is requested at a time. More could be gone from memory before it is read.
constexpr std::uint64_t most_requested = std::uint64_t{256} << 20;

/// Asks the system to read this part of an open file.
void request(int fd, std::uint64_t offset, std::uint64_t size) noexcept {
#ifdef POSIX_FADV_WILLNEED
    (void)posix_fadvise(fd, static_cast<off_t>(offset), static_cast<off_t>(size), POSIX_FADV_WILLNEED);
#else
    (void)fd, (void)offset, (void)size;
#endif
}

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
        const std::int64_t offset = offsets.data()[i], size = sizes.data()[i];
        if (offset < 0 || size < 0 || size > INT64_MAX - offset || number >= files.size() ||
            std::cmp_greater(size, INT64_MAX - total))
            throw nb::value_error("a range that cannot be");
        starts[i] = static_cast<std::int64_t>(total);
        total += static_cast<std::uint64_t>(size);
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
        // Calls `handle(first, fd, offset, bytes)` for the ranges from `first` on that are adjacent, until one returns
        // false.
        const auto each_run = [&](auto&& handle) {
            for (std::size_t i = 0; i < count;) {
                std::size_t last = i;
                while (last + 1 < count && at[last] + size[last] == at[last + 1] &&
                       (in == nullptr || in[last] == in[last + 1]))
                    ++last;
                const auto bytes = static_cast<std::size_t>(at[last] + size[last] - at[i]);
                const int fd = files[in != nullptr ? static_cast<std::size_t>(in[i]) : 0];
                if (!handle(i, fd, static_cast<std::uint64_t>(at[i]), bytes)) return;
                i = last + 1;
            }
        };
        const bool asks = OnlyReading::has_waited();
        const OnlyReading reading;
        if (asks) {
            std::uint64_t requested = 0;
            each_run([&](std::size_t, int fd, std::uint64_t offset, std::size_t bytes) {
                if (bytes != 0) request(fd, offset, bytes); // 0 would be all of it
                requested += bytes;
                return requested < most_requested;
            });
        }
        each_run([&](std::size_t first, int fd, std::uint64_t offset, std::size_t bytes) {
            error = read_fully(fd, block.data() + starts[first], bytes, offset, missing);
            failed = first;
            return error == 0 && missing == 0;
        });
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

/// Opens a file to read. Returns its descriptor, or minus the errno.
int open_file(const char* path, int flags = 0) noexcept {
    int fd = -1;
    do fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

/// Reads an open file that should consist of `head` and `size` further bytes, which go to `to`. `spare` has
/// head.size() + 1 bytes.
std::int64_t read_file(int fd, std::string_view head, std::byte* to, std::size_t size, std::string& spare) {
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
    if (status == 0 && std::memcmp(spare.data(), head.data(), head.size()) != 0) status = otherwise;
    return status;
}

constexpr std::size_t open_at_once = 64; ///< Files that are requested before the first of them is read.

/// The right to hold some files open, of which all threads together have few: others need descriptors, too.
class OpenFiles {
  public:
    OpenFiles() noexcept = default;
    ~OpenFiles() { held.fetch_sub(count_); }
    OpenFiles(const OpenFiles&) = delete;
    OpenFiles& operator=(const OpenFiles&) = delete;

    /// Takes one more, if one is left.
    [[nodiscard]] bool take() noexcept {
        // The threads that hold some are not in a child.
        [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, [] { held.store(0); });
        rlimit limit{};
        const bool is_known = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
        if (is_known && held.load() >= limit.rlim_cur / 8) return false;
        held.fetch_add(1);
        ++count_;
        return true;
    }

    void give_back() noexcept {
        held.fetch_sub(1);
        --count_;
    }

    /// Opens a file. If none can be opened because threads have theirs open ahead, waits for them: they close them
    /// soon.
    [[nodiscard]] static int open_after(const char* path) noexcept {
        int fd = open_file(path);
        for (int tries = 0; (fd == -EMFILE || fd == -ENFILE) && held.load() > 0 && tries < 5000; ++tries) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            fd = open_file(path);
        }
        return fd;
    }

  private:
    static inline std::atomic<std::uint64_t> held{0};
    std::uint64_t count_ = 0;
};

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
        const std::size_t whole = first.size() + size;
        block = batch_pool()->take(count * size);
        outcome = batch_pool()->take(count * sizeof(std::int64_t));
        std::array<int, open_at_once> fds{};
        for (std::size_t begin = 0; begin < count; begin += open_at_once) {
            const std::size_t end = std::min(count, begin + open_at_once);
            std::size_t opened = begin;
            const bool asks = OnlyReading::has_waited();
            const OnlyReading reading;
            OpenFiles ahead;
            if (asks)
                for (std::uint64_t requested = 0; opened < end && requested < most_requested && ahead.take();
                     requested += whole) {
                    const int fd = fds[opened - begin] = open_file(names[opened]);
                    if (fd == -EMFILE || fd == -ENFILE) { // Those that are open are read and closed first.
                        ahead.give_back();
                        break;
                    }
                    if (fd >= 0 && whole != 0) request(fd, 0, whole);
                    ++opened;
                }
            for (std::size_t i = begin; i < end; ++i) {
                const int fd = i < opened ? fds[i - begin] : OpenFiles::open_after(names[i]);
                const std::int64_t status = fd < 0 ? -fd : read_file(fd, first, block.data() + i * size, size, spare);
                if (fd >= 0) close(fd);
                if (i < opened) ahead.give_back();
                std::memcpy(outcome.data() + i * sizeof status, &status, sizeof status);
            }
        }
    }
    return nb::make_tuple(to_numpy(std::move(block), nb::dtype<std::uint8_t>(), {count, size}),
                          to_numpy(std::move(outcome), nb::dtype<std::int64_t>(), {count}));
}

void request_files(nb::list paths, bool follow_links) {
    std::vector<const char*> names;
    for (nb::handle path : paths) {
        const char* const name = PyBytes_AsString(path.ptr());
        if (name == nullptr) throw nb::python_error();
        names.push_back(name);
    }
    const nb::gil_scoped_release release; // `paths` keeps the names alive, and no other code has this list.
    std::uint64_t left = most_requested;
    for (std::size_t i = 0; i < names.size() && left > 0; ++i) {
        struct stat status{};
        // Opening a pipe would let its writer go on.
        if ((follow_links ? stat : lstat)(names[i], &status) != 0 || !S_ISREG(status.st_mode)) continue;
        const int fd = open_file(names[i], O_NONBLOCK | O_NOCTTY | (follow_links ? 0 : O_NOFOLLOW));
        if (fd < 0) continue; // Reading it gives the reason.
        if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
            const auto size = std::min(static_cast<std::uint64_t>(status.st_size), left);
            request(fd, 0, size);
            left -= size;
        }
        close(fd);
    }
}

void request_ranges(nb::object buffers, std::optional<Which> which, Indices begins, Indices ends) {
    const nb::object held = hold_buffers(std::move(buffers));
    const auto& all = nb::cast<const HeldBuffers&>(held);
    const std::size_t count = begins.shape(0);
    if (ends.shape(0) != count || (which && which->shape(0) != count))
        throw nb::value_error("which, begins and ends differ in length");
    const std::int32_t* const in = which ? which->data() : nullptr;
    const std::int64_t *const begin = begins.data(), *const end = ends.data();
    static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const nb::gil_scoped_release release;
    std::uint64_t requested = 0;
    for (std::size_t i = 0; i < count && requested < most_requested; ++i) {
        const std::size_t number = in != nullptr ? static_cast<std::size_t>(in[i]) : 0;
        if (number >= all.bytes.size() || begin[i] < 0 || end[i] <= begin[i]) continue;
        const Bytes bytes = all.bytes[number];
        if (std::cmp_greater(end[i], bytes.size())) continue;
        const auto from = reinterpret_cast<std::uintptr_t>(bytes.data() + begin[i]) / page * page;
        const auto to = reinterpret_cast<std::uintptr_t>(bytes.data() + end[i]);
        requested += to - from;
        // Memory that belongs to no file is left as it is.
        (void)madvise(reinterpret_cast<void*>(from), to - from, MADV_WILLNEED); // NOLINT(performance-no-int-to-ptr)
    }
}

} // namespace

void register_read(nb::module_& module) {
    module.def("has_read_from_disk", &has_read_from_disk,
               "Whether this thread has made the system read from a disk, or waited for a page of a mapped file, since "
               "it last "
               "asked. False where the system does not say.");
    module.def("request_files", &request_files, nb::arg("paths"), nb::kw_only(), nb::arg("follow_links"),
               nb::sig("def request_files(paths: list[bytes], *, follow_links: bool) -> None"),
               "Ask the system to read small files ahead, up to 256 MB. What cannot be opened, or is no regular file, "
               "is left out.");
    module.def(
        "request_ranges", &request_ranges, nb::arg("buffers"), nb::arg("which").none(), nb::arg("begins"),
        nb::arg("ends"),
        nb::sig("def request_ranges(buffers: Buffers | list[typing.Any], which: "
                "numpy.typing.NDArray[numpy.int32] | None, begins: numpy.typing.NDArray[numpy.int64], ends: "
                "numpy.typing.NDArray[numpy.int64]) -> None"),
        "Ask the system to read the bytes [begins[i], ends[i]) of the mapped files buffers[which[i]] (None: all of "
        "the first) ahead. Ranges outside their buffers are left out.");
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
void register_read(nb::module_& module) {
    module.def("has_read_from_disk", [] { return false; });
}
} // namespace headrace::bind
#endif
