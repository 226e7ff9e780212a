#include "core/csv/layout.hpp"

#include <algorithm>

#include "core/csv/number.hpp"

namespace headrace::csv {
namespace {

struct Truth {
    std::string_view word;
    bool value;
};
constexpr std::array<Truth, 6> truths{
    {{"True", true}, {"False", false}, {"true", true}, {"false", false}, {"TRUE", true}, {"FALSE", false}}};

} // namespace

Words::Words(std::vector<std::string> words) : words_(std::move(words)) {
    for (const std::string& word : words_) {
        longest_ = std::max(longest_, word.size());
        if (word.empty()) empty_ = true;
        else first_[static_cast<unsigned char>(word.front())] = true;
    }
}

bool Words::has(std::string_view text) const noexcept {
    if (text.empty()) return empty_;
    if (text.size() > longest_ || !first_[static_cast<unsigned char>(text.front())]) return false;
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
