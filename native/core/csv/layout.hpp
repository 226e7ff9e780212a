#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/csv/scan.hpp"

namespace headrace::csv {

/// Words that mark a missing value.
class Words {
  public:
    explicit Words(std::vector<std::string> words);

    /// Whether `text` is one of them.
    [[nodiscard]] bool has(std::string_view text) const noexcept;

    /// Whether any of them begins with this byte.
    [[nodiscard]] bool begin_with(char byte) const noexcept { return first_[static_cast<unsigned char>(byte)]; }

    /// Whether any of them parses as a number.
    [[nodiscard]] bool has_number(char decimal) const noexcept;

    /// Whether any of them is a truth value.
    [[nodiscard]] bool has_truth() const noexcept;

  private:
    std::vector<std::uint64_t> short_; ///< Words of up to seven bytes, each with its size in the top byte.
    std::vector<std::string> words_;
    std::array<bool, 256> first_{};
    std::size_t longest_ = 0;
    bool empty_ = false;
};

/// How to split and parse the rows of a file.
struct Layout {
    Dialect dialect;
    std::size_t width = 0; ///< Per row.
    Words missing{{}};
};

/// A truth value: true, True, TRUE, false, ... -1: not one.
[[nodiscard]] int truth_of(std::string_view text) noexcept;

/// Reads a truth value at the start of `text`. Returns how many bytes it takes; 0 if there is none.
[[nodiscard]] std::size_t truth_at(std::string_view text, std::uint64_t& value) noexcept;

/// Without blanks at both ends.
[[nodiscard]] inline std::string_view trimmed(std::string_view text) noexcept {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

} // namespace headrace::csv
