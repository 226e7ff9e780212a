#include "bind/support.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>

#include <nanobind/stl/unique_ptr.h>

namespace headrace::bind {

Buffer::Buffer(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
    if (GuardedRead* const guard = GuardedRead::current()) mapped_ = guard->touch(bytes().data());
}

Buffer::~Buffer() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
}

HeldBuffers::HeldBuffers(nb::sequence objects) {
    const std::size_t count = nb::len(objects);
    buffers.reserve(count);
    bytes.reserve(count);
    files.reserve(count);
    for (nb::handle object : objects) {
        bytes.push_back(buffers.emplace_back(object).bytes());
        const MappedFile* const file = MappedFile::find(bytes.back().data()).file;
        files.push_back(file);
        has_files = has_files || file != nullptr;
    }
}

std::optional<std::pair<HeldBuffers, std::vector<std::int64_t>>> HeldBuffers::join(nb::handle parts) {
    const auto& all = nb::cast<const HeldBuffers&>(parts);
    std::vector<Bytes> in_order;
    for (std::size_t i = 0; i < all.bytes.size(); ++i) {
        const MappedFile* const file = all.files[i];
        if (all.bytes[i].empty()) continue;
        if (file == nullptr || all.bytes[i].data() != file->data() || all.bytes[i].size() != file->size()) return {};
        in_order.push_back(all.bytes[i]);
    }
    if (in_order.empty()) return {};
    std::ranges::sort(in_order, std::less<>{}, [](Bytes file) { return file.data(); });
    for (std::size_t i = 1; i < in_order.size(); ++i)
        if (in_order[i].data() != in_order[i - 1].data() + MappedFile::whole_pages(in_order[i - 1].size())) return {};

    const std::byte* const begin = in_order.front().data();
    std::vector<std::int64_t> offsets;
    offsets.reserve(all.bytes.size());
    for (const Bytes file : all.bytes) offsets.push_back(file.empty() ? 0 : file.data() - begin);
    HeldBuffers one;
    one.bytes = {Bytes(begin, in_order.back().data() + in_order.back().size())};
    std::ranges::copy_if(all.files, std::back_inserter(one.files), [](const auto* file) { return file != nullptr; });
    one.has_files = true;
    one.joined = nb::borrow(parts);
    return std::pair(std::move(one), std::move(offsets));
}

MappedFilesHeld HeldBuffers::mapped(const std::int32_t* which, std::size_t count) const {
    MappedFilesHeld found;
    if (!has_files || count == 0) return found;
    if (joined.is_valid()) {
        if (GuardedRead* const guard = GuardedRead::current()) guard->touch_stretches(files, {});
        return files;
    }
    if (which == nullptr) {
        if (files[0] != nullptr) found.push_back(files[0]);
    } else {
        found.reserve(std::min(count, files.size()));
        std::vector<unsigned char> seen(files.size());
        for (std::size_t i = 0; i < count; ++i) {
            if (i != 0 && which[i] == which[i - 1]) continue;
            const auto number = static_cast<std::size_t>(which[i]);
            if (number >= files.size() || seen[number] != 0) continue; // Wrong numbers fail where they are used.
            seen[number] = 1;
            if (files[number] != nullptr) found.push_back(files[number]);
        }
    }
    if (GuardedRead* const guard = GuardedRead::current()) guard->touch(found);
    return found;
}

void keep_heap([[maybe_unused]] std::size_t total) noexcept {
#if defined(__GLIBC__)
    constexpr std::size_t least = 256 << 10, most = 31 << 20; // Larger blocks do not count.
    static std::atomic<std::size_t> freed{least};
    const std::size_t size = std::min(total, most);
    if (size <= freed.load(std::memory_order_relaxed)) return;
    freed.store(size, std::memory_order_relaxed);
    void* volatile block = std::malloc(size); // volatile: the compiler must not leave it out.
    std::free(block);
#endif
}

void add_files(MappedFilesHeld& to, const MappedFilesHeld& more) {
    to.insert(to.end(), more.begin(), more.end());
    std::ranges::sort(to, std::less<>{});
    to.erase(std::ranges::unique(to).begin(), to.end());
}

nb::object hold_buffers(nb::object object) {
    if (nb::isinstance<HeldBuffers>(object)) return object;
    return nb::cast(std::make_unique<HeldBuffers>(nb::cast<nb::sequence>(object)));
}

namespace {

/// Functions of NumPy's C interface, which make an array in a third of the time that `numpy.ndarray(...)` takes. Their
/// places in its table never change (numpy/__multiarray_api.h), so no header of NumPy is needed to build this.
struct NumpyFunctions {
    using NewFromDescr = PyObject* (*)(PyTypeObject*, PyObject*, int, const Py_intptr_t*, const Py_intptr_t*, void*,
                                       int, PyObject*);
    using SetBaseObject = int (*)(PyObject*, PyObject*);

    NumpyFunctions() {
        nb::object core;
        try {
            core = nb::module_::import_("numpy._core._multiarray_umath");
        } catch (nb::python_error&) {
            core = nb::module_::import_("numpy.core._multiarray_umath"); // before NumPy 2
        }
        const nb::object table = core.attr("_ARRAY_API");
        auto** const functions = static_cast<void**>(PyCapsule_GetPointer(table.ptr(), nullptr));
        if (functions == nullptr) throw nb::python_error();
        new_from_descr = reinterpret_cast<NewFromDescr>(functions[94]);
        set_base_object = reinterpret_cast<SetBaseObject>(functions[282]);
    }

    NewFromDescr new_from_descr;   ///< Takes a reference to the dtype.
    SetBaseObject set_base_object; ///< Takes a reference to the base, also if it fails.
};

/// numpy.ndarray, and the dtypes that columns have. Kept for good: looking them up costs more than making an array.
struct Numpy {
    NumpyFunctions functions;
    nb::handle ndarray;
    std::array<std::array<nb::handle, 4>, 3>
        numbers; ///< By DLPack's code (int, uint, float) and the power of the size.
    nb::handle boolean;

    Numpy() {
        const nb::module_ numpy = nb::module_::import_("numpy");
        ndarray = nb::object(numpy.attr("ndarray")).release();
        const auto dtype = [&numpy](const char* name) { return nb::object(numpy.attr("dtype")(name)).release(); };
        numbers = {{{dtype("int8"), dtype("int16"), dtype("int32"), dtype("int64")},
                    {dtype("uint8"), dtype("uint16"), dtype("uint32"), dtype("uint64")},
                    {nb::handle(), dtype("float16"), dtype("float32"), dtype("float64")}}};
        boolean = dtype("bool");
    }

    [[nodiscard]] nb::handle of(nb::dlpack::dtype dtype) const {
        if (dtype == nb::dtype<bool>()) return boolean;
        return numbers.at(dtype.code).at(static_cast<std::size_t>(std::countr_zero(dtype.bits / 8U)));
    }
};

void* memory_of(const Pool::Block& block) {
    static std::byte nothing{};
    return block.data() == nullptr ? &nothing : block.data();
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
    const HeldBlock& held = *nb::inst_ptr<HeldBlock>(nb::handle(self));
    return PyBuffer_FillInfo(view, self, memory_of(held.block), static_cast<Py_ssize_t>(held.size), 0, flags);
}

} // namespace

namespace {

/// Made while the module is imported: NumPy's import may give up the interpreter lock, and a thread that waited for it
/// here, holding that lock, would wait for ever. Not freed at exit: other threads may still make arrays.
const Numpy* numpy_made = nullptr;

const Numpy& numpy_types() { return *numpy_made; }

} // namespace

nb::handle array_class() { return numpy_types().ndarray; }

nb::object to_numpy(Pool::Block block, std::size_t count, std::size_t row_bytes, nb::tuple row_shape,
                    nb::handle dtype) {
    const auto axes = static_cast<Py_ssize_t>(row_shape.size());
    const nb::object lengths = nb::steal(PyTuple_New(axes + 1));
    PyObject* const number = PyLong_FromSize_t(count);
    if (!lengths.is_valid() || number == nullptr) {
        Py_XDECREF(number);
        throw nb::python_error();
    }
    PyTuple_SetItem(lengths.ptr(), 0, number);
    for (Py_ssize_t axis = 0; axis < axes; ++axis)
        PyTuple_SetItem(lengths.ptr(), axis + 1, row_shape[static_cast<std::size_t>(axis)].inc_ref().ptr());
    const nb::object held = nb::cast(HeldBlock{std::move(block), count * row_bytes});
    return numpy_types().ndarray(lengths, dtype, held);
}

nb::object to_numpy(Pool::Block block, nb::dlpack::dtype dtype, std::initializer_list<std::size_t> shape) {
    constexpr std::size_t most_axes = 4;
    constexpr int c_contiguous = 0x1, aligned = 0x100, writeable = 0x400; // NumPy's flags
    if (shape.size() > most_axes) throw nb::value_error("too many axes");
    const Numpy& numpy = numpy_types();
    std::array<Py_intptr_t, most_axes> lengths{};
    std::size_t size = dtype.bits / 8U, axis = 0;
    for (const std::size_t length : shape) {
        size *= length;
        lengths[axis++] = static_cast<Py_intptr_t>(length);
    }
    void* const memory = memory_of(block);
    nb::object held = nb::cast(HeldBlock{std::move(block), size});
    PyObject* const made = numpy.functions.new_from_descr(
        reinterpret_cast<PyTypeObject*>(numpy.ndarray.ptr()), numpy.of(dtype).inc_ref().ptr(),
        static_cast<int>(shape.size()), lengths.data(), nullptr, memory, c_contiguous | aligned | writeable, nullptr);
    if (made == nullptr) throw nb::python_error();
    nb::object array = nb::steal(made);
    if (numpy.functions.set_base_object(made, held.release().ptr()) != 0) throw nb::python_error();
    return array;
}

void register_block(nb::module_& module) {
    if (numpy_made == nullptr) numpy_made = new Numpy(); // NOLINT(cppcoreguidelines-owning-memory)
    static std::array<PyType_Slot, 2> slots{{{Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)}, {0, nullptr}}};
    nb::class_<HeldBlock>(module, "PoolBlock", nb::type_slots(slots.data()),
                          "The memory of a column. It returns to the pool when the last array over it dies.");
}

namespace {

nb::object starts_array(const std::vector<std::int64_t>& starts) {
    Pool::Block block = batch_pool()->take(starts.size() * sizeof(std::int64_t));
    if (!starts.empty()) std::memcpy(block.data(), starts.data(), starts.size() * sizeof(std::int64_t));
    return to_numpy(std::move(block), nb::dtype<std::int64_t>(), {starts.size()});
}

} // namespace

nb::list positions_of(const std::vector<std::uint8_t>& marks) {
    nb::list out;
    for (std::size_t i = 0; i < marks.size(); ++i)
        if (marks[i] != 0) out.append(i);
    return out;
}

nb::tuple scanned(const Scan& found) {
    if (found.faulty) {
        nb::object error = to_python(found.fault);
        error.attr("starts") = starts_array(found.starts);
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
        throw nb::python_error();
    }
    return nb::make_tuple(starts_array(found.starts), found.next);
}

} // namespace headrace::bind
