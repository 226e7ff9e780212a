#include "bind/support.hpp"

#if defined(__unix__) || defined(__APPLE__)
#define PENSTOCK_HAS_MMAP 1
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace penstock::bind {

#ifdef PENSTOCK_HAS_MMAP
namespace {

/// A file's bytes as memory. Does not keep the file descriptor, so that thousands can be mapped.
class Mapping {
  public:
    Mapping(int fd, std::size_t size) : size_(size) {
        struct stat status {};
        if (fstat(fd, &status) != 0) raise_errno();
        // Touching a page behind the end of the file would end the process.
        if (static_cast<std::uint64_t>(status.st_size) < size) throw nb::value_error("the file has fewer bytes than size");
        if (size == 0) return;
        void* const at = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED) raise_errno();
        data_ = static_cast<std::byte*>(at);
    }
    ~Mapping() {
        if (data_ != nullptr) munmap(data_, size_);
    }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::byte* data() const { return data_; }

    /// Advice on the whole pages within [offset, offset + length).
    void advise(std::size_t offset, std::size_t length, int advice) const {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        if (data_ == nullptr || offset >= size_) return;
        const std::size_t end = length > size_ - offset ? size_ : offset + length;
        const std::size_t first = (offset + page - 1) / page * page;
        const std::size_t last = end == size_ ? size_ : end / page * page;
        if (first < last) madvise(data_ + first, last - first, advice);
    }

  private:
    [[noreturn]] static void raise_errno() {
        PyErr_SetFromErrno(PyExc_OSError);
        throw nb::python_error();
    }

    std::byte* data_ = nullptr;
    std::size_t size_;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
    if (!nb::inst_ready(self)) { // Made by MappedFile.__new__, never opened.
        PyErr_SetString(PyExc_BufferError, "this MappedFile was not opened");
        view->obj = nullptr;
        return -1;
    }
    const Mapping& mapping = *nb::inst_ptr<Mapping>(self);
    static char nothing = 0; // A view of no bytes still wants an address.
    void* const data = mapping.size() != 0 ? static_cast<void*>(mapping.data()) : &nothing;
    return PyBuffer_FillInfo(view, self, data, static_cast<Py_ssize_t>(mapping.size()), 1, flags);
}

bool start_writing_back(int fd, std::int64_t offset, std::int64_t size) {
#ifdef SYNC_FILE_RANGE_WRITE
    return sync_file_range(fd, offset, size, SYNC_FILE_RANGE_WRITE) == 0; // An error of the disk is met again by fsync.
#else
    (void)fd, (void)offset, (void)size;
    return false;
#endif
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

} // namespace

void register_files(nb::module_& module) {
    nb::class_<Mapping>(module, "MappedFile", nb::type_slots(slots), "A file's bytes as read-only memory, through the buffer protocol.")
        .def(nb::init<int, std::size_t>(), nb::arg("fd"), nb::arg("size"), "Map the first `size` bytes; the descriptor may be closed afterwards. ValueError when the file has fewer.")
        .def("__len__", &Mapping::size)
        .def(
            "drop", [](const Mapping& self, std::size_t offset, std::size_t size) { self.advise(offset, size, MADV_DONTNEED); },
            nb::arg("offset"), nb::arg("size"), "Let go of the resident pages of a range; they are read again when touched.")
        .def(
            "prefetch", [](const Mapping& self, std::size_t offset, std::size_t size) { self.advise(offset, size, MADV_WILLNEED); },
            nb::arg("offset"), nb::arg("size"), "Ask for the pages of a range to be read ahead.");
    module.attr("HAS_MAPPED_FILE") = true;
    module.def("start_writing_back", &start_writing_back, nb::arg("fd"), nb::arg("offset"), nb::arg("size"), nb::call_guard<nb::gil_scoped_release>(),
               "Have the system begin to bring what was written of a range to the disk, and wait for none of it. False where it knows no such advice.");
}
#else
void register_files(nb::module_& module) {
    module.attr("HAS_MAPPED_FILE") = false;
    module.def("start_writing_back", [](int, std::int64_t, std::int64_t) { return false; }, nb::arg("fd"), nb::arg("offset"), nb::arg("size"));
}
#endif

} // namespace penstock::bind
