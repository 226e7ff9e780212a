#include "bind/base/columns.hpp"

namespace headrace::bind {

nb::object to_strings(const StringsMaker& maker, const TextColumn& column) {
    const std::size_t size = column.blocks->size, count = column.blocks->count;
    return maker.make({to_numpy(std::move(column.blocks->data), nb::dtype<std::uint8_t>(), {size}),
                       to_numpy(std::move(column.blocks->offsets), nb::dtype<std::int64_t>(), {count + 1}),
                       nb::borrow(column.is_text ? Py_True : Py_False), nb::make_tuple(count)});
}

std::vector<nb::object> to_strings(std::span<const TextColumn> columns, nb::handle strings) {
    std::vector<nb::object> made;
    if (columns.empty()) return made;
    const StringsMaker maker(strings);
    made.reserve(columns.size());
    for (const TextColumn& column : columns) made.push_back(to_strings(maker, column));
    return made;
}

} // namespace headrace::bind
