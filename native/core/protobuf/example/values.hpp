#pragma once

#include "core/base/cpu.hpp"
#include "core/protobuf/example/scan.hpp"

namespace headrace::example {

/// The bytes that a number takes in a column.
[[nodiscard]] constexpr std::size_t size_of_number(Kind kind) noexcept {
    return kind == Kind::float32 ? sizeof(float) : sizeof(std::int64_t);
}

/// Sets `run` to the only packed run of a list, the usual form; false for any other form.
[[nodiscard]] bool sole_packed_run(const List& list, Part& run);

/// The number of values in a list. Throws FormatError{wire} for a packed run that ends within a value.
[[nodiscard]] std::size_t count_values(const List& list, const Cpu& cpu = this_cpu);

/// Writes the numbers of a list if there are exactly `count`, and returns how many there are; if the result differs,
/// the content of `to` is undefined. `wanted` is the list's own kind (float32 or int64, stored unchanged) or number
/// (stored as double). Throws FormatError{range} for an integer that double cannot represent.
[[nodiscard]] std::size_t read_numbers(const List& list, Kind wanted, std::size_t count, std::byte* to,
                                       const Cpu& cpu = this_cpu);

/// Calls `on_text(bytes)` for every value of a list of kind bytes.
template <typename OnText> void each_text(const List& list, OnText&& on_text) {
    const auto in_piece = [&](Part piece) { walk_fields(piece, 1, [&](Part text) { on_text(text.bytes); }); };
    in_piece(list.piece);
    for (const Part& piece : list.more) in_piece(piece);
}

} // namespace headrace::example
