#include "bind/base/columns.hpp"

#include <cstring>
#include <numeric>

namespace headrace::bind {
namespace {

nb::object owned(PyObject* made) {
    if (made == nullptr) throw nb::python_error();
    return nb::steal(made);
}

// An array takes about 0.8 us, two for each column, and a copy of so many bytes less than half of that.
constexpr std::size_t most_copied = 4096; // bytes of a column's values or offsets

bool is_small(std::span<const TextColumn> columns, std::size_t rows) {
    std::size_t bytes = 0;
    for (const TextColumn& column : columns) bytes += column.blocks->size;
    return columns.size() > 1 && (rows + 1) * sizeof(std::int64_t) <= most_copied &&
           bytes <= columns.size() * most_copied;
}

} // namespace

std::vector<nb::object> to_strings(std::span<const TextColumn> columns, std::size_t rows, nb::handle strings) {
    std::vector<nb::object> made;
    if (columns.empty()) return made;
    const StringsMaker maker(strings);
    const nb::object shape = nb::make_tuple(rows);
    const auto add = [&](nb::object data, nb::object offsets, bool is_text) {
        made.push_back(
            maker.make({std::move(data), std::move(offsets), nb::borrow(is_text ? Py_True : Py_False), shape}));
    };
    made.reserve(columns.size());
    if (!is_small(columns, rows)) {
        for (const auto& [blocks, is_text] : columns) {
            nb::object data = to_numpy(std::move(blocks->data), nb::dtype<std::uint8_t>(), {blocks->size});
            add(std::move(data), to_numpy(std::move(blocks->offsets), nb::dtype<std::int64_t>(), {rows + 1}), is_text);
        }
        return made;
    }
    const auto add_size = [](std::size_t sum, const TextColumn& column) { return sum + column.blocks->size; };
    const std::size_t bytes = std::accumulate(columns.begin(), columns.end(), std::size_t{0}, add_size);
    Pool::Block values = batch_pool()->take(bytes);
    Pool::Block offsets = batch_pool()->take(columns.size() * (rows + 1) * sizeof(std::int64_t));
    auto* to = reinterpret_cast<std::int64_t*>(offsets.data());
    std::size_t at = 0;
    for (const TextColumn& column : columns) {
        const StringBlocks& blocks = *column.blocks;
        const auto* const from = reinterpret_cast<const std::int64_t*>(blocks.offsets.data());
        for (std::size_t i = 0; i <= rows; ++i) to[i] = from[i] + static_cast<std::int64_t>(at);
        to += rows + 1;
        if (blocks.size != 0) std::memcpy(values.data() + at, blocks.data.data(), blocks.size);
        at += blocks.size;
    }
    const nb::object shared = to_numpy(std::move(values), nb::dtype<std::uint8_t>(), {bytes});
    const nb::object places = to_numpy(std::move(offsets), nb::dtype<std::int64_t>(), {columns.size(), rows + 1});
    for (std::size_t k = 0; k < columns.size(); ++k)
        add(shared, owned(PySequence_GetItem(places.ptr(), static_cast<Py_ssize_t>(k))), columns[k].is_text);
    return made;
}

} // namespace headrace::bind
