#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bind/support.hpp"
#include "core/checksum/crc32c.hpp"

#if defined(__unix__) || defined(__APPLE__)
#define HEADRACE_HAS_MMAP 1
#include <cerrno>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#endif

namespace headrace::bind {
namespace {

/// Makes the Python exception for a truncated mapped file from (name, opened, size). Set by Python, never freed.
PyObject* make_error = nullptr;

/// A guard as a context manager.
struct PythonGuard {
    explicit PythonGuard(nb::args buffers_) : buffers(std::move(buffers_)) {}

    void enter() {
        guard.emplace();
        try {
            hold();
        } catch (...) {
            held.clear();
            guard.reset(); // A failed __enter__ has no matching __exit__.
            throw;
        }
    }

    void hold() {
        held.reserve(buffers.size());
        for (nb::handle buffer : buffers) {
            if (nb::isinstance<HeldSpans>(buffer)) touch_argument(*guard, nb::cast<const HeldSpans&>(buffer));
            else held.emplace_back(buffer);
        }
    }

    void exit() {
        if (!guard) return;
        struct Leaving {
            explicit Leaving(PythonGuard& guard) : self(guard) {}
            Leaving(const Leaving&) = delete;
            Leaving& operator=(const Leaving&) = delete;
            ~Leaving() {
                self.held.clear();
                self.guard.reset();
            }
            PythonGuard& self;
        };
        const Leaving leaving(*this);
        raise_if_lost(*guard);
    }

    nb::args buffers;
    std::vector<Buffer> held;
    std::optional<GuardedRead> guard;
};

nb::bytes copy_of(nb::handle data, std::size_t offset, std::size_t size) {
    const Buffer buffer(data);
    const Bytes bytes = buffer.bytes();
    const std::size_t begin = std::min(offset, bytes.size());
    const Bytes part = bytes.subspan(begin, std::min(size, bytes.size() - begin));
    constexpr std::size_t worth_a_release = std::size_t{1} << 20;
    if (part.size() < worth_a_release) return nb::bytes(part.data(), part.size());
    nb::object copy = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(part.size())));
    if (!copy.is_valid()) throw nb::python_error();
    char* const to = PyBytes_AsString(copy.ptr());
    {
        const nb::gil_scoped_release release; // No other thread has seen the copy. Python owns its reference count, so
                                              // the GIL must be held again to return it.
        std::memcpy(to, part.data(), part.size());
    }
    return nb::steal<nb::bytes>(copy.release());
}

nb::list copies_of(nb::object buffers, std::optional<Which> which, Indices begins, Indices ends) {
    const nb::object held = hold_buffers(std::move(buffers));
    const auto& all = nb::cast<const HeldBuffers&>(held);
    const std::size_t count = begins.shape(0);
    if (ends.shape(0) != count || (which && which->shape(0) != count))
        throw nb::value_error("which, begins and ends differ in length");
    (void)all.mapped(which ? which->data() : nullptr, count);
    nb::list out;
    for (std::size_t i = 0; i < count; ++i) {
        const auto number = which ? static_cast<std::size_t>(which->data()[i]) : 0;
        const std::int64_t begin = begins.data()[i], end = ends.data()[i];
        if (number >= all.bytes.size() || begin < 0 || end < begin ||
            static_cast<std::uint64_t>(end) > all.bytes[number].size())
            throw nb::index_error("a range that is not in its buffer");
        out.append(nb::bytes(all.bytes[number].data() + begin, static_cast<std::size_t>(end - begin)));
    }
    return out;
}

void register_guards(nb::module_& module) {
    nb::class_<PythonGuard>(
        module, "GuardedRead",
        "Inside this context, the thread may read buffers of mapped files even if such a file is truncated; leaving "
        "the context then raises the error. Use nothing that was read before leaving, and do not yield inside.")
        .def(nb::init<nb::args>(), nb::sig("def __init__(self, *buffers: collections.abc.Buffer | Spans) -> None"))
        .def("__enter__", [](PythonGuard& self) { self.enter(); })
        .def(
            "__exit__", [](PythonGuard& self, const nb::args&) { self.exit(); },
            nb::sig("def __exit__(self, *args: object) -> None"));
    module.def("copy_bytes", guarded(&copy_of), nb::arg("data"), nb::arg("offset") = 0, nb::arg("size") = SIZE_MAX,
               nb::sig("def copy_bytes(data: collections.abc.Buffer, offset: int = 0, size: int = ...) -> bytes"),
               "`size` bytes from `offset`, or fewer at the end.");
    module.def("copy_ranges", guarded(&copies_of), nb::arg("buffers"), nb::arg("which").none(), nb::arg("begins"),
               nb::arg("ends"),
               nb::sig("def copy_ranges(buffers: Buffers | list[typing.Any], which: numpy.typing.NDArray[numpy.int32] "
                       "| None, begins: "
                       "numpy.typing.NDArray[numpy.int64], ends: numpy.typing.NDArray[numpy.int64]) -> list[bytes]"),
               "The bytes [begins[i], ends[i]) of buffers[which[i]] (None: all of the first).");
    module.def(
        "on_lost_file",
        [](nb::object function) {
            Py_XDECREF(make_error);
            make_error = function.release().ptr();
        },
        nb::arg("function"), nb::sig("def on_lost_file(function: typing.Any) -> None"),
        "Set the function that makes the exception for a mapped file that was truncated during a read, from its name, "
        "its opened path, and its size.");
}

} // namespace

nb::object copy_of_mapped(Bytes bytes, const MappedFile* file) {
#ifdef HEADRACE_HAS_MMAP
    if (file == nullptr || !file->is_private() || !file->holds(bytes.data())) return {};
    GuardedRead guard;
    guard.touch(file);
    const nb::bytes copy(bytes.data(), bytes.size());
    raise_if_lost(guard);
    return nb::steal(PyMemoryView_FromObject(copy.ptr()));
#else
    return {};
#endif
}

void raise_if_lost(GuardedRead& guard, GuardedRead::Look look) {
    const MappedFile* const file = guard.lost(look);
    if (file == nullptr) return;
#ifdef HEADRACE_HAS_MMAP
    if (make_error == nullptr) throw nb::value_error("a mapped file was cut off while it was read");
    const std::string &name = file->name(), &opened = file->opened();
    const nb::object error = nb::borrow(make_error)(nb::bytes(name.data(), name.size()),
                                                    nb::bytes(opened.data(), opened.size()), file->size());
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    throw nb::python_error();
#endif
}

#ifdef HEADRACE_HAS_MMAP
namespace {

#if defined(__APPLE__)
std::int64_t modified(const struct stat& status) {
    return std::int64_t{status.st_mtimespec.tv_sec} * 1'000'000'000 + status.st_mtimespec.tv_nsec;
}
std::int64_t changed(const struct stat& status) {
    return std::int64_t{status.st_ctimespec.tv_sec} * 1'000'000'000 + status.st_ctimespec.tv_nsec;
}
#else
std::int64_t modified(const struct stat& status) {
    return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}
std::int64_t changed(const struct stat& status) {
    return std::int64_t{status.st_ctim.tv_sec} * 1'000'000'000 + status.st_ctim.tv_nsec;
}
#endif

/// (size, modification time, checksum of both ends, status change time).
nb::tuple signature_tuple(const struct stat& status, std::uint32_t sum) {
    return nb::make_tuple(static_cast<std::int64_t>(status.st_size), modified(status), sum, changed(status));
}

void check_block_bytes(std::size_t block_bytes) {
    constexpr std::size_t most = std::size_t{1} << 20;
    if (block_bytes == 0 || block_bytes > most) throw nb::value_error("blocks of no bytes, or of more than a megabyte");
}

/// How many files are mapped now.
std::atomic<std::size_t> mapped_now{0};

/// A file's bytes as memory. Closes the file descriptor, so that thousands of files can be mapped.
class Mapping {
  public:
    Mapping(int fd, std::optional<std::size_t> size, nb::str name, nb::str opened, bool is_private,
            AdjacentPlaces* among) {
        if (fstat(fd, &status_) != 0) raise_errno(errno);
        if (!S_ISREG(status_.st_mode)) throw nb::value_error("not a regular file");
        const auto found = static_cast<std::uint64_t>(status_.st_size);
        size_ = size.value_or(static_cast<std::size_t>(found));
        if (found < size_) throw nb::value_error("the file has fewer bytes than size");
        if (size_ == 0) return;
        std::string name_ = path_bytes(name), opened_ = path_bytes(opened);
        const FileId id{static_cast<std::uint64_t>(status_.st_dev), static_cast<std::uint64_t>(status_.st_ino)};
        int error = 0;
        {
            const nb::gil_scoped_release release; // The first page touched may come from a slow disk.
            try {
                file_.emplace(fd, size_, id, std::move(name_), std::move(opened_), is_private, among);
            } catch (const std::system_error& failure) {
                error = failure.code().value();
            }
        }
        if (error != 0) raise_errno(error);
        mapped_now.fetch_add(1, std::memory_order_relaxed);
    }

    ~Mapping() {
        if (file_) mapped_now.fetch_sub(1, std::memory_order_relaxed);
    }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    /// The same as `read_signature`, for the whole file at the time of mapping. The checksum comes from the mapping.
    [[nodiscard]] nb::tuple signature(std::size_t block_bytes) const {
        check_block_bytes(block_bytes);
        if (std::cmp_not_equal(size_, status_.st_size)) throw nb::value_error("only a beginning of the file is mapped");
        std::uint32_t sum = crc32c({});
        if (file_) {
            GuardedRead guard;
            guard.touch(&*file_);
            {
                const nb::gil_scoped_release release;
                const Bytes all(data(), size_);
                sum = size_ <= 2 * block_bytes ? crc32c(all)
                                               : crc32c(all.last(block_bytes), crc32c(all.first(block_bytes)));
            }
            raise_if_lost(guard);
        }
        return signature_tuple(status_, sum);
    }

    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::byte* data() const { return file_ ? file_->data() : nullptr; }

    /// As the functions of `MappedFile`; an empty file has nothing to read.
    void expect_all() const noexcept {
        if (file_) file_->expect_all();
    }
    void expect_scattered_reads(bool scattered) const noexcept {
        if (file_) file_->expect_scattered_reads(scattered);
    }

    /// Advises on the whole pages within [offset, offset + length).
    void advise(std::size_t offset, std::size_t length, int advice) const {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        if (!file_ || offset >= size_) return;
        const std::size_t end = length > size_ - offset ? size_ : offset + length;
        const std::size_t first = (offset + page - 1) / page * page;
        const std::size_t last = end == size_ ? size_ : end / page * page;
        if (first < last) madvise(data() + first, last - first, advice);
    }

  private:
    /// A path in the file system's encoding.
    static std::string path_bytes(const nb::str& path) {
        const nb::object encoded = nb::steal(PyUnicode_EncodeFSDefault(path.ptr()));
        if (!encoded.is_valid()) throw nb::python_error();
        const auto bytes = nb::borrow<nb::bytes>(encoded);
        return {bytes.c_str(), bytes.size()};
    }

    [[noreturn]] static void raise_errno(int error) {
        errno = error;
        PyErr_SetFromErrno(PyExc_OSError);
        throw nb::python_error();
    }

    struct stat status_{};
    std::size_t size_ = 0;
    std::optional<MappedFile> file_;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
    if (!nb::inst_ready(self)) { // Made by MappedFile.__new__, never opened.
        PyErr_SetString(PyExc_BufferError, "this MappedFile was not opened");
        view->obj = nullptr;
        return -1;
    }
    const Mapping& mapping = *nb::inst_ptr<Mapping>(self);
    static char nothing = 0; // An empty view needs an address too.
    void* const data = mapping.size() != 0 ? static_cast<void*>(mapping.data()) : &nothing;
    return PyBuffer_FillInfo(view, self, data, static_cast<Py_ssize_t>(mapping.size()), 1, flags);
}

/// Reads up to `size` bytes at an offset, fewer at the end of the file. Sets `error` if the system call fails.
std::size_t read_at(int fd, std::byte* to, std::size_t size, std::uint64_t offset, int& error) {
    std::size_t done = 0;
    while (done < size) {
        const ssize_t count = pread(fd, to + done, size - done, static_cast<off_t>(offset + done));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) error = errno;
        if (count <= 0) break;
        done += static_cast<std::size_t>(count);
    }
    return done;
}

nb::tuple read_signature(int fd, std::size_t block_bytes) {
    check_block_bytes(block_bytes);
    struct stat status{};
    int error = 0;
    std::uint32_t sum = 0;
    {
        const nb::gil_scoped_release release;
        if (fstat(fd, &status) != 0) {
            error = errno;
        } else {
            const auto size = static_cast<std::uint64_t>(status.st_size);
            const auto room = static_cast<std::size_t>(std::min<std::uint64_t>(size, 2 * block_bytes));
            const auto ends = std::make_unique_for_overwrite<std::byte[]>(room);
            std::size_t found = 0;
            if (size <= 2 * block_bytes) {
                found = read_at(fd, ends.get(), room, 0, error); // Reads nothing from a pipe, which has no offsets.
            } else {
                found = read_at(fd, ends.get(), block_bytes, 0, error);
                found += read_at(fd, ends.get() + found, block_bytes, size - block_bytes, error);
            }
            sum = crc32c({ends.get(), found});
        }
    }
    if (error != 0) {
        errno = error;
        PyErr_SetFromErrno(PyExc_OSError);
        throw nb::python_error();
    }
    return signature_tuple(status, sum);
}

bool start_writing_back(int fd, std::int64_t offset, std::int64_t size) {
#ifdef SYNC_FILE_RANGE_WRITE
    return sync_file_range(fd, offset, size, SYNC_FILE_RANGE_WRITE) == 0; // fsync reports disk errors again.
#else
    (void)fd, (void)offset, (void)size;
    return false;
#endif
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

} // namespace

void register_files(nb::module_& module) {
    nb::class_<AdjacentPlaces>(module, "AdjacentPlaces",
                               "Where the files of one set are mapped: each on the pages behind the one before.")
        .def(nb::init<>())
        .def("read_whole", &AdjacentPlaces::read_whole, nb::arg("most"),
             "From now on, files up to this size are read completely when their first missing page is touched; 0: "
             "none.");
    nb::class_<Mapping>(module, "MappedFile", nb::type_slots(slots),
                        "A file's bytes as read-only memory, through the buffer protocol.")
        .def(nb::init<int, std::optional<std::size_t>, nb::str, nb::str, bool, AdjacentPlaces*>(), nb::arg("fd"),
             nb::arg("size") = nb::none(), nb::arg("name") = "", nb::arg("opened") = "", nb::arg("private") = false,
             nb::arg("among") = nb::none(),
             "Map the first `size` bytes, by default all; the descriptor may be closed afterwards. ValueError if the "
             "file is shorter, or not a regular file. `name` is the file's name in errors, `opened` its absolute path. "
             "Users get only copies of a private one. `among`: the set to which it belongs.")
        .def("__len__", &Mapping::size)
        .def("signature", &Mapping::signature, nb::arg("block_bytes"),
             nb::sig("def signature(self, block_bytes: int) -> tuple[int, int, int, int]"),
             "As `read_signature`, for a file that is mapped completely.")
        .def(
            "drop",
            [](const Mapping& self, std::size_t offset, std::size_t size) { self.advise(offset, size, MADV_DONTNEED); },
            nb::arg("offset"), nb::arg("size"),
            "Release the resident pages of a range; they are read again when touched.")
        .def(
            "expect_scattered_reads",
            [](const Mapping& self, bool scattered) { self.expect_scattered_reads(scattered); }, nb::arg("scattered"),
            "Whether a missing page is read alone, without its neighbours.")
        .def(
            "expect_all", [](const Mapping& self) { self.expect_all(); },
            "That all of it will be read: what is missing is read in large parts, until reads are scattered.");
    register_guards(module);
    module.attr("HAS_MAPPED_FILE") = true;
    module.def(
        "count_mapped", [] { return mapped_now.load(std::memory_order_relaxed); },
        "How many files this process has mapped by `MappedFile` now.");
    module.def("read_signature", &read_signature, nb::arg("fd"), nb::arg("block_bytes"),
               nb::sig("def read_signature(fd: int, block_bytes: int) -> tuple[int, int, int, int]"),
               "For an open file: size, mtime in nanoseconds, CRC-32C of its first and last block, and ctime in "
               "nanoseconds. Its position does not change.");
    module.def("start_writing_back", &start_writing_back, nb::arg("fd"), nb::arg("offset"), nb::arg("size"),
               nb::call_guard<nb::gil_scoped_release>(),
               "Ask the system to start writing a range to the disk, without waiting. False if it cannot.");
}
#else
void register_files(nb::module_& module) {
    register_guards(module);
    module.attr("HAS_MAPPED_FILE") = false;
    module.def("count_mapped", [] { return std::size_t{0}; });
    module.def(
        "start_writing_back", [](int, std::int64_t, std::int64_t) { return false; }, nb::arg("fd"), nb::arg("offset"),
        nb::arg("size"));
}
#endif

} // namespace headrace::bind
