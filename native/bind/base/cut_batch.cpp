#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include <nanobind/stl/pair.h>

#include "bind/base/columns.hpp"
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
        strings_.emplace(classes_.strings);
        values_ = {column_.attr("_data"), column_.attr("_offsets"), column_.attr("is_text"), nb::make_tuple(size_)};
        kind_ = Kind::strings;
    }

    [[nodiscard]] nb::object strings_part(Py_ssize_t k) const {
        auto values = values_;
        values[1] = slice(values_[1], k * size_, (k + 1) * size_ + 1);
        return strings_->make(values);
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
        ragged_.emplace(classes_.ragged, std::array{"values", "offsets"});
        kind_ = Kind::ragged;
    }

    [[nodiscard]] nb::object ragged_part(Py_ssize_t k) const {
        const auto [begin, end] = bounds_[static_cast<std::size_t>(k)];
        return ragged_->make({slice(ragged_values_, begin, end), owned(PySequence_GetItem(ragged_offsets_.ptr(), k))});
    }

    nb::object column_;
    Classes classes_;
    Py_ssize_t size_;
    Kind kind_ = Kind::other;
    std::optional<StringsMaker> strings_;
    std::array<nb::object, 4> values_; // of strings
    std::optional<SlotsMaker<2>> ragged_;
    nb::object ragged_values_, ragged_offsets_;
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

/// An example for each row: a dict of what the columns hold there.
nb::list list_examples(nb::tuple names, nb::list columns) {
    std::vector<nb::object> values;
    for (nb::handle column : columns) values.push_back(nb::borrow(column));
    const auto size_of = [](const nb::object& column) {
        return nb::isinstance<nb::list>(column) ? PyList_Size(column.ptr()) : -1;
    };
    const Py_ssize_t rows = values.empty() ? 0 : size_of(values.front());
    const auto is_other = [&](const nb::object& column) { return size_of(column) != rows; };
    if (values.size() != nb::len(names) || rows < 0 || std::ranges::any_of(values, is_other))
        throw nb::value_error("a list for each name, all of one length");
    nb::list examples;
    for (Py_ssize_t row = 0; row < rows; ++row) {
        nb::dict example;
        for (std::size_t k = 0; k < values.size(); ++k)
            example[names[k]] = owned(PySequence_GetItem(values[k].ptr(), row));
        examples.append(std::move(example));
    }
    return examples;
}

/// The values of each feature, example by example; nothing if one is no dict, or has other features.
std::optional<nb::list> split_examples(nb::sequence examples, nb::tuple names) {
    const std::size_t width = nb::len(names), rows = nb::len(examples);
    std::vector<nb::list> columns(width);
    for (std::size_t row = 0; row < rows; ++row) {
        const nb::object example = owned(PySequence_GetItem(examples.ptr(), static_cast<Py_ssize_t>(row)));
        if (!PyDict_CheckExact(example.ptr()) || nb::len(example) != width) return std::nullopt;
        for (std::size_t k = 0; k < width; ++k) {
            const nb::object name = names[k];
            PyObject* const value = PyDict_GetItemWithError(example.ptr(), name.ptr());
            if (value == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
            if (value == nullptr) return std::nullopt;
            columns[k].append(nb::borrow(value));
        }
    }
    nb::list found;
    for (nb::list& column : columns) found.append(std::move(column));
    return found;
}

struct Measured {
    Py_ssize_t rows;
    std::int64_t bytes;
};

std::optional<Measured> measure_array(nb::handle array) {
    const Py_ssize_t rows = array.type().is(array_class()) ? PyObject_Size(array.ptr()) : -1;
    if (rows >= 0) return Measured{rows, nb::cast<std::int64_t>(array.attr("nbytes"))};
    PyErr_Clear(); // An array without an axis has no length.
    return std::nullopt;
}

std::optional<Measured> measure_strings(nb::handle strings) {
    const nb::object offsets = strings.attr("_offsets");
    const std::optional<Measured> held = measure_array(offsets);
    if (!held || held->rows == 0) return std::nullopt;
    const Buffer buffer(offsets);
    const auto end = load_le<std::int64_t>(buffer.bytes().last(sizeof(std::int64_t)).data());
    const std::int64_t text_bytes = end - load_le<std::int64_t>(buffer.bytes().data());
    return Measured{nb::cast<Py_ssize_t>(nb::object(strings.attr("shape"))[0]), held->bytes + text_bytes};
}

/// The rows and bytes of an array, or of a column of text or of rows that vary in length; nothing for another object.
std::optional<Measured> measure_column(nb::object column, const Classes& classes) {
    std::optional<Py_ssize_t> rows;
    std::int64_t bytes = 0;
    while (column.type().is(classes.ragged)) { // its rows may vary in length, too
        const std::optional<Measured> offsets = measure_array(nb::object(column.attr("offsets")));
        if (!offsets || offsets->rows == 0) return std::nullopt;
        if (!rows) rows = offsets->rows - 1;
        bytes += offsets->bytes;
        column = column.attr("values");
    }
    const std::optional<Measured> values =
        column.type().is(classes.strings) ? measure_strings(column) : measure_array(column);
    if (!values) return std::nullopt;
    return Measured{rows.value_or(values->rows), bytes + values->bytes};
}

/// The bytes of some columns of `rows` rows, and whether all of them are arrays; nothing if one has other rows, or is
/// of another class.
std::optional<std::pair<std::int64_t, bool>> measure(nb::dict batch, nb::handle strings, nb::handle ragged,
                                                     Py_ssize_t rows) {
    std::int64_t bytes = 0;
    bool are_arrays = true;
    for (const auto& [name, column] : batch) {
        const std::optional<Measured> found = measure_column(nb::borrow(column), Classes{strings, ragged});
        if (!found || found->rows != rows) return std::nullopt;
        bytes += found->bytes;
        are_arrays = are_arrays && column.type().is(array_class());
    }
    return std::pair{bytes, are_arrays};
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
    module.def("list_examples", guarded(&list_examples), nb::arg("names"), nb::arg("columns"),
               nb::sig("def list_examples(names: tuple[typing.Any, ...], columns: list[list[typing.Any]]) -> "
                       "list[dict[typing.Any, typing.Any]]"),
               "A dict for each row of some columns, by their names.");
    module.def("split_examples", guarded(&split_examples), nb::arg("examples"), nb::arg("names"),
               nb::sig("def split_examples(examples: collections.abc.Sequence[typing.Any], names: tuple[typing.Any, "
                       "...]) -> list[list[typing.Any]] | None"),
               "The values of each of these features in some examples. None if an example is no dict, or has other "
               "features.");
    module.def("measure_batch", guarded(&measure), nb::arg("batch"), nb::arg("strings"), nb::arg("ragged"),
               nb::arg("rows"),
               nb::sig("def measure_batch(batch: dict[str, typing.Any], strings: type, ragged: type, rows: int) -> "
                       "tuple[int, bool] | None"),
               "The bytes of columns that have `rows` rows, and whether all are arrays. None if one has other rows, or "
               "is neither an array nor of these classes.");
}

} // namespace headrace::bind
