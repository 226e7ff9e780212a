#pragma once

#include <string>
#include <vector>

#include "core/base/cursor.hpp"

namespace headrace::npy {

/// A value of the Python literal in a .npy header: string, integer, boolean, tuple or list. Dicts occur only at the
/// top.
struct Literal {
    enum class Kind : std::uint8_t { text, number, truth, tuple, list };
    Kind kind = Kind::tuple;
    std::string text;           ///< UTF-8.
    std::uint64_t number = 0;   ///< Booleans are 0 or 1.
    std::vector<Literal> items; ///< Of tuples and lists.
};

/// Everything before the data.
struct Header {
    std::uint8_t major = 0;
    std::uint8_t minor = 0;
    Literal descr;
    bool fortran_order = false;
    std::vector<std::uint64_t> shape;
    std::uint64_t data_offset = 0;
};

/// Parses magic, version, length and literal (NumPy Enhancement Proposal 1; numpy.lib.format). `file` begins at the
/// magic; bytes after the header are not read. Throws FormatError: `magic`, `truncated`, `range` (header longer than
/// `most` bytes), `header` with the offset of the syntax error.
[[nodiscard]] Header parse(Bytes file, std::size_t most);

} // namespace headrace::npy
