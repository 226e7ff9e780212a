#pragma once

#include <array>
#include <span>
#include <vector>

#include <nanobind/nanobind.h>

#include <structmember.h> // after Python.h, which nanobind includes

#include "bind/support.hpp"
#include "core/text/strings.hpp"

namespace headrace::bind {

/// Makes objects of a Python class whose attributes are slots, without its constructor, which takes longer than all
/// else that a small column needs.
template <std::size_t N> class SlotsMaker {
  public:
    /// Throws AttributeError or TypeError if the class has no such slots.
    SlotsMaker(nb::handle type, const std::array<const char*, N>& names) : type_(nb::borrow(type)) {
        for (std::size_t i = 0; i < N; ++i) places_[i] = slot_of(type, names[i]);
    }

    [[nodiscard]] nb::object make(std::array<nb::object, N> values) const {
        PyObject* const made = PyType_GenericAlloc(reinterpret_cast<PyTypeObject*>(type_.ptr()), 0);
        if (made == nullptr) throw nb::python_error();
        for (std::size_t i = 0; i < N; ++i)
            *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(made) + places_[i]) = values[i].release().ptr();
        return nb::steal(made);
    }

  private:
    static Py_ssize_t slot_of(nb::handle type, const char* name) {
        const nb::object slot = type.attr(name);
        if (Py_TYPE(slot.ptr()) != &PyMemberDescr_Type) throw nb::type_error("expected a class with slots");
        const PyMemberDef* const member = reinterpret_cast<PyMemberDescrObject*>(slot.ptr())->d_member;
        if (member->type != T_OBJECT_EX) throw nb::type_error("expected a slot for an object");
        return member->offset;
    }

    nb::object type_;
    std::array<Py_ssize_t, N> places_{};
};

/// Makes columns of the class `Strings`: data, offsets, whether they are text, shape.
class StringsMaker : public SlotsMaker<4> {
  public:
    explicit StringsMaker(nb::handle type) : SlotsMaker(type, {"_data", "_offsets", "is_text", "shape"}) {}
};

/// Values of one column of text, and whether they are text or bytes.
struct TextColumn {
    StringBlocks* blocks;
    bool is_text;
};

/// Columns as objects of the class `strings`.
[[nodiscard]] std::vector<nb::object> to_strings(std::span<const TextColumn> columns, nb::handle strings);

} // namespace headrace::bind
