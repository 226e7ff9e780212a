#include "core/framing/lines.hpp"

#include <algorithm>
#include <bit>
#include <string_view>

#include "core/text/marks.hpp"

namespace headrace::lines {
namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

bool is_blank(char byte) noexcept { return byte == ' ' || byte == '\t' || byte == '\r'; }

/// Whether only blanks lie between `at` and the end of its line.
bool is_blank_line(std::string_view text, std::size_t at) noexcept {
    while (at < text.size() && is_blank(text[at])) ++at;
    return at >= text.size() || text[at] == '\n';
}

std::string_view text_of(Bytes file) noexcept { return {reinterpret_cast<const char*>(file.data()), file.size()}; }

} // namespace

std::uint64_t find(Bytes file, std::uint64_t at) noexcept {
    const std::string_view text = text_of(file);
    if (at >= text.size()) return text.size();
    if (at != 0) {
        const std::size_t end = text.find('\n', static_cast<std::size_t>(at) - 1);
        at = end == std::string_view::npos ? text.size() : end + 1;
    }
    while (at < text.size() && is_blank_line(text, static_cast<std::size_t>(at))) {
        const std::size_t end = text.find('\n', static_cast<std::size_t>(at));
        at = end == std::string_view::npos ? text.size() : end + 1;
    }
    return at;
}

Scan scan(Bytes file, std::uint64_t start, std::uint64_t stop, const Cpu& cpu) {
    const std::string_view text = text_of(file);
    const auto end = static_cast<std::size_t>(std::min<std::uint64_t>(stop, text.size()));
    auto at = static_cast<std::size_t>(std::min<std::uint64_t>(start, end));
    Scan out;
    const auto add = [&](std::size_t begin) {
        if (!is_blank_line(text, begin)) out.starts.push_back(static_cast<std::int64_t>(begin));
    };
    if (at < end) add(at == 0 && text.starts_with(byte_order_mark) ? byte_order_mark.size() : at);
    constexpr std::size_t together = 16;
    MarkMasks masks[together];
    constexpr Marks marks{'\n', '\n', '\n', '\n'};
    // A line end that is the last byte begins the next line outside.
    const std::size_t last = end == 0 ? 0 : end - 1;
    while (at < last && last - at >= block_bytes) {
        const std::size_t blocks = std::min((last - at) / block_bytes, together);
        find_marks(text.data() + at, blocks, marks, masks, cpu);
        for (std::size_t i = 0; i < blocks; ++i, at += block_bytes)
            for (std::uint64_t mask = masks[i].of[0]; mask != 0; mask &= mask - 1)
                add(at + static_cast<std::size_t>(std::countr_zero(mask)) + 1);
    }
    for (; at < last; ++at)
        if (text[at] == '\n') add(at + 1);
    out.next = find(file, stop);
    return out;
}

} // namespace headrace::lines
