#include "core/csv/cells/around.hpp"

#include <algorithm>
#include <cstring>

namespace headrace::csv {

bool Around::look(const GridColumn& column, std::size_t row, std::size_t count) noexcept {
    for (std::size_t i = row; i < row + count; ++i)
        if (column.size(i) != 0 && look(std::string_view(column.begin(i), column.size(i)))) return true;
    return false;
}

bool Around::look(std::string_view text) noexcept {
    if (text.size() > word_bytes) return false; // not read together with others
    const bool was_any = any_;
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
        any_ = true;
        text.remove_prefix(1);
    }
    if (text.empty()) return any_ && !was_any;
    any_ |= text.front() == '+';
    const bool is_word = missing_ != nullptr && count_ != most_words && missing_->begin_with(text.front()) &&
                         text.back() != ' ' && text.back() != '\t' && missing_->has(text);
    if (!is_word) return any_ && !was_any;
    Word word;
    std::memcpy(word.bytes.data() + (word_bytes - text.size()), text.data(), text.size());
    constexpr std::uint64_t lanes = 0x0001000100010001;
    word.places = (std::uint64_t{0xFFFF0000} >> text.size() & 0xFFFF) * lanes;
    const bool is_known = std::any_of(words_.begin(), words_.begin() + static_cast<std::ptrdiff_t>(count_),
                                      [&](const Word& each) { return each.bytes == word.bytes; });
    if (is_known) return any_ && !was_any;
    words_[count_++] = word;
    return any_ = true;
}

} // namespace headrace::csv
