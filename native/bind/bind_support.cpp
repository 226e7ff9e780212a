#include "bind/support.hpp"

#include <algorithm>
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

MappedFilesHeld HeldBuffers::mapped(const std::int32_t* which, std::size_t count) const {
    MappedFilesHeld found;
    if (!has_files || count == 0) return found;
    if (which == nullptr) {
        if (files[0] != nullptr) found.push_back(files[0]);
    } else {
        found.reserve(std::min(count, files.size()));
        std::vector<unsigned char> seen(files.size());
        for (std::size_t i = 0; i < count; ++i) {
            const auto number = static_cast<std::size_t>(which[i]);
            if (number >= files.size() || seen[number] != 0) continue; // Wrong numbers fail where they are used.
            seen[number] = 1;
            if (files[number] != nullptr) found.push_back(files[number]);
        }
    }
    if (GuardedRead* const guard = GuardedRead::current()) guard->touch(found);
    return found;
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

nb::object to_numpy(Pool::Block block, nb::dlpack::dtype dtype, std::initializer_list<std::size_t> shape) {
    void* const data = block.data();
    auto held = std::make_unique<Pool::Block>(std::move(block));
    const nb::capsule owner(held.get(), [](void* self) noexcept { delete static_cast<Pool::Block*>(self); });
    static_cast<void>(held.release());
    nb::object array = nb::cast(nb::ndarray<nb::numpy>(data, shape.size(), shape.begin(), owner, nullptr, dtype));
    if (dtype != nb::dtype<std::int64_t>()) return array;
    // Buffers call int64 "q", which NumPy maps to its long long: equal to int64, but not the type that users compare
    // with.
    return array.attr("view")(nb::module_::import_("numpy").attr("int64"));
}

namespace {

nb::object starts_array(const std::vector<std::int64_t>& starts) {
    Pool::Block block = batch_pool()->take(starts.size() * sizeof(std::int64_t));
    if (!starts.empty()) std::memcpy(block.data(), starts.data(), starts.size() * sizeof(std::int64_t));
    return to_numpy(std::move(block), nb::dtype<std::int64_t>(), {starts.size()});
}

} // namespace

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
