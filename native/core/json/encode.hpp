#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/pool.hpp"
#include "core/text/strings.hpp"

/// Columns as lines of JSON, byte for byte as Python's json module writes the same values.
namespace headrace::json {

enum class Leaf : std::uint8_t {
    int8 = 1,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
    float32,
    float64,
    boolean,
    text,
    value, ///< Text that is JSON already.
};

/// The lists of one depth: all of one length, or with the places where they begin and end.
struct Lists {
    std::size_t length = 0;
    const std::int64_t* offsets = nullptr; ///< nullptr: `length` applies.
    std::size_t count = 0;                 ///< Of lists, where there are offsets.
};

/// A column to write. Holds views; others may change their memory meanwhile.
struct Source {
    std::string_view key; ///< In JSON, with quotes.
    Leaf leaf = Leaf::text;
    std::vector<Lists> lists; ///< Outermost first.
    Bytes numbers;
    StringsView texts;
};

struct Lines {
    Pool::Block block;
    std::size_t size = 0;
};

/// One object a line. Floats are the shortest text that reads back as the same float, NaN is null. Nothing, if a
/// number is infinite, a text is not UTF-8, or a list or text lies outside its column: the caller finds out which.
[[nodiscard]] std::optional<Lines> encode(std::span<const Source> sources, std::size_t rows,
                                          const std::shared_ptr<Pool>& pool);

/// Writes a float at `to`, which has room for `most_float` bytes, and returns its end. The float is finite.
inline constexpr std::size_t most_float = 40;
[[nodiscard]] char* write_float(char* to, double value) noexcept;
/// The same; the text is that of the double with the fewest digits that rounds to this float.
[[nodiscard]] char* write_float(char* to, float value) noexcept;

} // namespace headrace::json
