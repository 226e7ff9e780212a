#pragma once

#include <array>
#include <span>
#include <vector>

#include <nanobind/nanobind.h>

#include "bind/support.hpp"
#include "core/text/strings.hpp"

namespace headrace::bind {

/// Makes objects of a Python class whose attributes are slots, without its constructor, which takes longer than all
/// else that a small column needs. Slots are set by their descriptors, because the limited API, which modules for
/// Python 3.12 and later use, does not show where they are in an object.
template <std::size_t N> class SlotsMaker {
  public:
    /// Throws AttributeError or TypeError if the class has no such slots.
    SlotsMaker(nb::handle type, const std::array<const char*, N>& names) : type_(nb::borrow(type)) {
        for (std::size_t i = 0; i < N; ++i) {
            slots_[i] = type.attr(names[i]);
            if (Py_TYPE(slots_[i].ptr()) != &PyMemberDescr_Type) throw nb::type_error("expected a class with slots");
        }
        set_ = reinterpret_cast<descrsetfunc>(PyType_GetSlot(&PyMemberDescr_Type, Py_tp_descr_set));
    }

    [[nodiscard]] nb::object make(const std::array<nb::object, N>& values) const {
        const nb::object made = nb::steal(PyType_GenericAlloc(reinterpret_cast<PyTypeObject*>(type_.ptr()), 0));
        if (!made) throw nb::python_error();
        for (std::size_t i = 0; i < N; ++i)
            if (set_(slots_[i].ptr(), made.ptr(), values[i].ptr()) != 0) throw nb::python_error();
        return made;
    }

  private:
    nb::object type_;
    std::array<nb::object, N> slots_;
    descrsetfunc set_ = nullptr;
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

/// A column as an object of the class that `maker` makes.
[[nodiscard]] nb::object to_strings(const StringsMaker& maker, const TextColumn& column);

/// Columns as objects of the class `strings`.
[[nodiscard]] std::vector<nb::object> to_strings(std::span<const TextColumn> columns, nb::handle strings);

} // namespace headrace::bind
