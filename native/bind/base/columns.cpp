#include "bind/base/columns.hpp"

namespace headrace::bind {

std::vector<nb::object> to_strings(std::span<const TextColumn> columns, nb::handle strings) {
    std::vector<nb::object> made;
    if (columns.empty()) return made;
    const StringsMaker maker(strings);
    made.reserve(columns.size());
    for (const auto& [blocks, is_text] : columns) {
        const std::size_t size = blocks->size, count = blocks->count;
        made.push_back(maker.make({to_numpy(std::move(blocks->data), nb::dtype<std::uint8_t>(), {size}),
                                   to_numpy(std::move(blocks->offsets), nb::dtype<std::int64_t>(), {count + 1}),
                                   nb::borrow(is_text ? Py_True : Py_False), nb::make_tuple(count)}));
    }
    return made;
}

} // namespace headrace::bind
