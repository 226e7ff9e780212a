#include "bind/support.hpp"

#if defined(__unix__) || defined(__APPLE__)
#define PENSTOCK_HAS_MMAP 1
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace penstock::bind {

#ifdef PENSTOCK_HAS_MMAP
namespace {

/// A file's bytes as memory. Does not keep the file descriptor, so that thousands can be mapped.
class Mapping {
  public:
    Mapping(int fd, std::size_t size) : size_(size) {
        if (size == 0) return;
        void* const at = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED) {
            PyErr_SetFromErrno(PyExc_OSError);
            throw nb::python_error();
        }
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
    std::byte* data_ = nullptr;
    std::size_t size_;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
    const auto& mapping = nb::cast<const Mapping&>(nb::handle(self));
    static std::byte nothing{}; // A view of no bytes still wants an address.
    return PyBuffer_FillInfo(view, self, mapping.size() != 0 ? mapping.data() : &nothing, static_cast<Py_ssize_t>(mapping.size()), 1, flags);
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

} // namespace

void register_files(nb::module_& module) {
    nb::class_<Mapping>(module, "MappedFile", nb::type_slots(slots), "A file's bytes as read-only memory, through the buffer protocol.")
        .def(nb::init<int, std::size_t>(), nb::arg("fd"), nb::arg("size"), "Map the first `size` bytes; the descriptor may be closed afterwards.")
        .def("__len__", &Mapping::size)
        .def("__buffer__", [](nb::handle self, int) { return nb::steal(PyMemoryView_FromObject(self.ptr())); }, nb::arg("flags"),
             nb::sig("def __buffer__(self, flags: int, /) -> memoryview"))
        .def(
            "drop", [](const Mapping& self, std::size_t offset, std::size_t size) { self.advise(offset, size, MADV_DONTNEED); },
            nb::arg("offset"), nb::arg("size"), "Let go of the resident pages of a range; they are read again when touched.")
        .def(
            "prefetch", [](const Mapping& self, std::size_t offset, std::size_t size) { self.advise(offset, size, MADV_WILLNEED); },
            nb::arg("offset"), nb::arg("size"), "Ask for the pages of a range to be read ahead.");
    module.attr("HAS_MAPPED_FILE") = true;
}
#else
void register_files(nb::module_& module) { module.attr("HAS_MAPPED_FILE") = false; }
#endif

} // namespace penstock::bind
