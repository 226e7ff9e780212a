#include "bind/support.hpp"

namespace penstock::bind {

Buffer::Buffer(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
}

Buffer::~Buffer() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
}

nb::object to_numpy(Pool::Block block, nb::dlpack::dtype dtype, std::initializer_list<std::size_t> shape) {
    void* const data = block.data();
    auto* const held = new Pool::Block(std::move(block));
    const nb::capsule owner(held, [](void* self) noexcept { delete static_cast<Pool::Block*>(self); });
    return nb::cast(nb::ndarray<nb::numpy>(data, shape.size(), shape.begin(), owner, nullptr, dtype));
}

} // namespace penstock::bind
