#pragma once

#include <string>
#include <vector>

#include "core/base/cursor.hpp"

namespace headrace::npy {

/// A value of the Python literal in a .npy header: text, whole number, truth value, tuple, list. Dicts only at the top.
struct Literal {
    enum class Kind : std::uint8_t { text, number, truth, tuple, list };
    Kind kind = Kind::tuple;
    std::string text;           ///< UTF-8.
    std::uint64_t number = 0;   ///< Also 0 or 1 for truth.
    std::vector<Literal> items; ///< Of tuples and lists.
};

/// What stands before the data.
struct Header {
    std::uint8_t major = 0;
    std::uint8_t minor = 0;
    Literal descr;
    bool fortran_order = false;
    std::vector<std::uint64_t> shape;
    std::uint64_t data_offset = 0;
};

/// Reads magic, version, length and literal (NumPy Enhancement Proposal 1; numpy.lib.format). `file` begins at the
/// magic; bytes behind the header are not looked at. A header of more than `most` bytes is refused. Throws FormatError:
/// `magic`, `truncated`, `range` (header too long), `header` with the offset at which the grammar ends.
[[nodiscard]] Header parse(Bytes file, std::size_t most);

} // namespace headrace::npy
