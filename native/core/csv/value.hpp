#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/csv/fields.hpp"
#include "core/csv/layout.hpp"

namespace headrace::csv {

enum class Kind : std::uint8_t { int64 = 1, uint64, float64, float32, boolean, text };

/// Bytes of a number; 0 for text.
[[nodiscard]] std::size_t size_of(Kind kind) noexcept;

/// The characters of an encoding of one byte a character that extends ASCII: for bytes from 128 on, their UTF-8, or
/// nothing where the encoding has no such character.
using Charset = std::array<std::string, 128>;

/// A column to decode.
struct Spec {
    std::size_t field = 0; ///< Its index in a row.
    Kind kind = Kind::text;
    bool has_default = false; ///< Whether a missing value becomes `number` or `words`.
    std::uint64_t number = 0; ///< The bits of the number that a missing one becomes.
    std::string words;        ///< The text that a missing one becomes.
    bool exact = false;       ///< float64 only: an integer that would be rounded is `wrong_kind`.
    bool is_bytes = false;    ///< text only: any bytes will do. Otherwise values are UTF-8 or `charset`.
    std::shared_ptr<const Charset> charset{}; ///< The characters of the text, which becomes UTF-8; by default UTF-8.
};

/// Reads a number of `kind` at the start of `text` into its bits. Returns how many bytes it takes, 0 if there is none.
[[nodiscard]] std::size_t read_number(std::string_view text, Kind kind, char decimal, std::uint64_t& bits);

/// Whether a number read as float64 may be an integer that was rounded: a cheap test, as few are large enough.
[[nodiscard]] inline bool may_be_rounded(const Spec& spec, std::uint64_t bits) noexcept {
    constexpr std::uint64_t exponent_of_2_to_53 = 1023 + 53;
    return spec.exact && (bits << 1 >> 53) >= exponent_of_2_to_53;
}

/// The bits of a missing number, if a value may be missing.
[[nodiscard]] std::optional<std::uint64_t> missing_number(const Spec& spec) noexcept;

/// The bits of the number in a field: one with blanks or quotes around it, a truth value, or a missing one. Throws
/// FormatError{wrong_kind} and {missing} at `offset`, with `feature` = k.
[[nodiscard]] std::uint64_t number_in(std::string_view inner, const Spec& spec, const Layout& layout,
                                      std::size_t offset, std::size_t k);

} // namespace headrace::csv
