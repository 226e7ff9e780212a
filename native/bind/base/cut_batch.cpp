#include <array>
#include <utility>
#include <vector>

#include "bind/support.hpp"

namespace headrace::bind {
namespace {

nb::object owned(PyObject* made) {
    if (made == nullptr) throw nb::python_error();
    return nb::steal(made);
}

nb::object slice(const nb::object& sequence, Py_ssize_t begin, Py_ssize_t end) {
    return owned(PySequence_GetSlice(sequence.ptr(), begin, end));
}

/// An object of a class with slots, without its constructor.
template <std::size_t N>
nb::object make(nb::handle type, const std::array<nb::object, N>& slots, const std::array<nb::object, N>& values) {
    nb::object made = owned(PyType_GenericAlloc(reinterpret_cast<PyTypeObject*>(type.ptr()), 0));
    for (std::size_t i = 0; i < N; ++i)
        if (PyObject_GenericSetAttr(made.ptr(), slots[i].ptr(), values[i].ptr()) != 0) throw nb::python_error();
    return made;
}

/// The classes of columns that are cut here, because their own slices take longer than all else.
struct Classes {
    nb::handle strings, ragged;
};

/// A column of a batch that is being cut into `count` parts of `size` rows.
class CutColumn {
  public:
    CutColumn(nb::handle name, nb::handle column, const Classes& classes, Py_ssize_t size, Py_ssize_t count)
        : name(nb::borrow(name)),
          column_(nb::borrow(column)),
          classes_(classes),
          size_(size) {
        if (column.type().is(classes.strings)) take_strings();
        else if (column.type().is(classes.ragged)) take_ragged(count);
    }

    [[nodiscard]] nb::object part(Py_ssize_t k) const {
        switch (kind_) {
        case Kind::strings: return strings_part(k);
        case Kind::ragged: return ragged_part(k);
        case Kind::other: break;
        }
        return slice(column_, k * size_, (k + 1) * size_);
    }

    nb::object name;

  private:
    enum class Kind { other, strings, ragged };

    void take_strings() {
        if (nb::len(nb::handle(nb::object(column_.attr("shape")))) != 1) return;
        const auto slots = nb::cast<nb::tuple>(classes_.strings.attr("__slots__")); // data, offsets, is it text, shape
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            slots_[i] = nb::borrow(slots[i]);
            values_[i] = nb::getattr(column_, slots_[i]);
        }
        values_[3] = nb::make_tuple(size_);
        kind_ = Kind::strings;
    }

    [[nodiscard]] nb::object strings_part(Py_ssize_t k) const {
        auto values = values_;
        values[1] = slice(values_[1], k * size_, (k + 1) * size_ + 1);
        return make(classes_.strings, slots_, values);
    }

    /// Offsets of all parts in one block, each from 0. Columns whose offsets are of another kind or fall slice
    /// themselves, and complain.
    void take_ragged(Py_ssize_t count) {
        Indices offsets;
        if (size_ <= 0 || !nb::try_cast(nb::object(column_.attr("offsets")), offsets, false)) return;
        const auto rows = static_cast<std::size_t>(size_), parts = static_cast<std::size_t>(count);
        if (offsets.shape(0) < rows * parts + 1) return;
        if (GuardedRead* const guard = GuardedRead::current())
            (void)guard->touch(reinterpret_cast<const std::byte*>(offsets.data()));
        nb::object values = column_.attr("values");
        const auto total = static_cast<std::int64_t>(nb::len(values));
        Pool::Block block = batch_pool()->take(parts * (rows + 1) * sizeof(std::int64_t));
        auto* const out = reinterpret_cast<std::int64_t*>(block.data());
        bounds_.reserve(parts);
        for (std::size_t k = 0; k < parts; ++k) {
            const std::int64_t* const from = offsets.data() + k * rows;
            std::int64_t* const to = out + k * (rows + 1);
            const std::int64_t first = from[0];
            if (first < 0 || first > total) return;
            for (std::size_t i = 0; i <= rows; ++i)
                to[i] =
                    static_cast<std::int64_t>(static_cast<std::uint64_t>(from[i]) - static_cast<std::uint64_t>(first));
            to[0] = 0; // the caller's array may change meanwhile
            if (to[rows] < 0 || to[rows] > total - first) return;
            bounds_.emplace_back(first, first + to[rows]);
        }
        ragged_offsets_ = to_numpy(std::move(block), nb::dtype<std::int64_t>(), {parts, rows + 1});
        ragged_values_ = std::move(values);
        ragged_slots_ = {nb::str("values"), nb::str("offsets")};
        kind_ = Kind::ragged;
    }

    [[nodiscard]] nb::object ragged_part(Py_ssize_t k) const {
        const auto [begin, end] = bounds_[static_cast<std::size_t>(k)];
        const nb::object offsets = owned(PySequence_GetItem(ragged_offsets_.ptr(), k));
        return make<2>(classes_.ragged, ragged_slots_, {slice(ragged_values_, begin, end), offsets});
    }

    nb::object column_;
    Classes classes_;
    Py_ssize_t size_;
    Kind kind_ = Kind::other;
    std::array<nb::object, 4> slots_, values_; // of strings
    nb::object ragged_values_, ragged_offsets_;
    std::array<nb::object, 2> ragged_slots_;
    std::vector<std::pair<Py_ssize_t, Py_ssize_t>> bounds_; // the values of each part of a ragged column
};

nb::list cut(nb::dict batch, nb::handle strings, nb::handle ragged, Py_ssize_t size, Py_ssize_t count) {
    if (size < 0 || count < 0) throw nb::value_error("size and count are from 0");
    std::vector<CutColumn> columns;
    columns.reserve(nb::len(batch));
    for (const auto& [name, column] : batch) columns.emplace_back(name, column, Classes{strings, ragged}, size, count);
    nb::list parts;
    for (Py_ssize_t k = 0; k < count; ++k) {
        nb::dict part;
        for (const CutColumn& column : columns) part[column.name] = column.part(k);
        parts.append(std::move(part));
    }
    return parts;
}

} // namespace

void register_cut_batch(nb::module_& module) {
    module.def(
        "cut_batch", guarded(&cut), nb::arg("batch"), nb::arg("strings"), nb::arg("ragged"), nb::arg("size"),
        nb::arg("count"),
        nb::sig("def cut_batch(batch: dict[str, typing.Any], strings: type, ragged: type, size: int, count: int) -> "
                "list[dict[str, typing.Any]]"),
        "`count` parts of `size` rows each: slices of the columns. `strings` and `ragged` are the classes of columns "
        "of "
        "text and of rows that vary in length, whose slices are made here.");
}

} // namespace headrace::bind
