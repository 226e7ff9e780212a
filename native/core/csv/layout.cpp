#include "core/csv/layout.hpp"

#include <algorithm>
#include <cstring>

#include "core/csv/number.hpp"

namespace headrace::csv {
namespace {

struct Truth {
    std::string_view word;
    bool value;
};
constexpr std::array<Truth, 6> truths{
    {{"True", true}, {"False", false}, {"true", true}, {"false", false}, {"TRUE", true}, {"FALSE", false}}};

constexpr std::size_t most_short = 7;

/// The bytes of a text of one to seven, and its size.
std::uint64_t short_word(std::string_view text) noexcept {
    const std::size_t size = text.size();
    std::uint64_t word = std::uint64_t{size} << 56;
    if (size >= 4) {
        std::uint32_t low = 0, high = 0;
        std::memcpy(&low, text.data(), sizeof low);
        std::memcpy(&high, text.data() + size - sizeof high, sizeof high);
        return word | low | std::uint64_t{high} << 8 * (size - sizeof high);
    }
    for (const std::size_t k : {std::size_t{0}, size / 2, size - 1})
        word |= std::uint64_t{static_cast<unsigned char>(text[k])} << 8 * k;
    return word;
}

} // namespace

Words::Words(std::vector<std::string> words) : words_(std::move(words)) {
    for (const std::string& word : words_) {
        longest_ = std::max(longest_, word.size());
        if (word.empty()) empty_ = true;
        else first_[static_cast<unsigned char>(word.front())] = true;
        if (!word.empty() && word.size() <= most_short) short_.push_back(short_word(word));
    }
}

bool Words::has(std::string_view text) const noexcept {
    if (text.empty()) return empty_;
    if (text.size() > longest_ || !begin_with(text.front())) return false;
    if (text.size() <= most_short) { // without a branch for each word
        const std::uint64_t wanted = short_word(text);
        bool found = false;
        for (const std::uint64_t word : short_) found |= word == wanted;
        return found;
    }
    return std::ranges::find(words_, text) != words_.end();
}

bool Words::has_number(char decimal) const noexcept {
    return std::ranges::any_of(
        words_, [&](const std::string& word) { return facts_of(word, decimal).kind != NumberKind::none; });
}

bool Words::has_truth() const noexcept {
    return std::ranges::any_of(truths, [&](const Truth& truth) { return has(truth.word); });
}

int truth_of(std::string_view text) noexcept {
    constexpr std::size_t longest = 5;
    if (text.size() > longest) return -1;
    for (const Truth& truth : truths)
        if (truth.word == text) return truth.value ? 1 : 0;
    return -1;
}

std::size_t truth_at(std::string_view text, std::uint64_t& value) noexcept {
    for (const Truth& truth : truths) {
        if (!text.starts_with(truth.word)) continue;
        value = truth.value ? 1 : 0;
        return truth.word.size();
    }
    return 0;
}

} // namespace headrace::csv
