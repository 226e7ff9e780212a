#pragma once

#include "core/tf_example_parse.hpp"

namespace headrace::example {

/// How many values a list holds. Throws FormatError{wire} for packed runs that do not end with a whole value.
[[nodiscard]] std::size_t count_values(const List& list);

/// Writes the numbers of a list, if there are `count` of them, and returns how many there are. `wanted` is float32 or int64,
/// which must be the list's kind and is stored as it is, or number, which is stored as double. Where the answer is not
/// `count`, there may be anything in the `count` places at `to`. Throws FormatError{range} for a whole number that no
/// double holds.
[[nodiscard]] std::size_t read_numbers(const List& list, Kind wanted, std::size_t count, std::byte* to);

/// Calls `on_text(bytes)` for every value of a list of kind bytes.
template <typename OnText> void each_text(const List& list, OnText&& on_text) {
    const auto in_piece = [&](Part piece) { walk_fields(piece, 1, [&](Part text) { on_text(text.bytes); }); };
    in_piece(list.piece);
    for (const Part& piece : list.more) in_piece(piece);
}

} // namespace headrace::example
