#include "core/csv/encode.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "core/csv/number.hpp"

namespace headrace::csv {
namespace {

constexpr std::size_t step = std::size_t{64} << 10;

/// A growing text buffer. Callers reserve room before they write.
class Lines {
  public:
    explicit Lines(std::vector<char>& out) : out_(out) {}

    char* room(std::size_t size) {
        if (out_.size() - used_ < size) out_.resize(out_.size() + std::max({size, step, out_.size()}));
        return out_.data() + used_;
    }

    void upto(const char* end) noexcept { used_ = static_cast<std::size_t>(end - out_.data()); }

    void put(std::string_view text) {
        char* const to = room(text.size());
        if (!text.empty()) std::memcpy(to, text.data(), text.size());
        used_ += text.size();
    }

    void put(char byte) { put(std::string_view(&byte, 1)); }

    void finish() { out_.resize(used_); }

  private:
    std::vector<char>& out_;
    std::size_t used_ = 0;
};

template <typename T> T load(const std::byte* from) noexcept {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

void put_text(Lines& lines, std::string_view text, const Dialect& dialect, bool is_quoted) {
    if (!dialect.quote) return lines.put(text);
    const char quote = *dialect.quote;
    const char odd[4] = {dialect.delimiter, quote, '\n', '\r'};
    if (text.find_first_of(std::string_view(odd, 4)) == std::string_view::npos && !is_quoted) return lines.put(text);
    lines.put(quote);
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t stop = std::min(text.find(quote, at), text.size());
        lines.put(text.substr(at, stop - at));
        if (stop != text.size()) lines.put(std::string_view(std::string{quote, quote}));
        at = stop + 1;
    }
    lines.put(quote);
}

/// Whether a text is this one, apart from blanks around it, as readers compare names.
bool is_alike(std::string_view text, std::string_view name) {
    constexpr std::string_view blanks = " \t\n\v\f\r";
    if (text.size() <= name.size()) return text == name;
    if (blanks.find(text.front()) == std::string_view::npos && blanks.find(text.back()) == std::string_view::npos)
        return false;
    const std::size_t begin = text.find_first_not_of(blanks);
    return begin != std::string_view::npos && text.substr(begin, text.find_last_not_of(blanks) + 1 - begin) == name;
}

bool is_missing(const Source& source, std::size_t i) noexcept {
    if (source.kind == Values::float64) return std::isnan(load<double>(source.numbers + i * 8));
    return source.kind == Values::float32 && std::isnan(load<float>(source.numbers + i * 4));
}

void put_number(Lines& lines, const Source& source, std::size_t i, const Dialect& dialect) {
    char* const to = lines.room(most_digits);
    switch (source.kind) {
    case Values::int64:
        return lines.upto(std::to_chars(to, to + most_digits, load<std::int64_t>(source.numbers + i * 8)).ptr);
    case Values::uint64:
        return lines.upto(std::to_chars(to, to + most_digits, load<std::uint64_t>(source.numbers + i * 8)).ptr);
    case Values::float64: return lines.upto(write_float64(to, load<double>(source.numbers + i * 8), dialect.decimal));
    case Values::float32: return lines.upto(write_float32(to, load<float>(source.numbers + i * 4), dialect.decimal));
    default: return lines.put(source.numbers[i] != std::byte{0} ? std::string_view("true") : std::string_view("false"));
    }
}

} // namespace

std::vector<char> encode(std::span<const Source> sources, std::size_t rows, const Dialect& dialect,
                         std::string_view line_end, std::string_view missing) {
    const bool is_word = missing != "nan"; // otherwise numbers write it
    std::vector<char> out;
    Lines lines(out);
    std::size_t width = 0;
    for (const Source& source : sources) width += source.count;
    for (std::size_t row = 0; row < rows; ++row) {
        bool first = true;
        for (const Source& source : sources) {
            for (std::size_t k = 0; k < source.count; ++k) {
                if (!first) lines.put(dialect.delimiter);
                first = false;
                const std::size_t i = row * source.count + k;
                if (source.kind == Values::text) {
                    const std::string_view text = source.texts[i];
                    const bool is_known = !source.quoted.empty() && is_alike(text, source.quoted[k]);
                    put_text(lines, text, dialect, is_known || (width == 1 && text.empty()));
                } else if (is_word && is_missing(source, i)) {
                    put_text(lines, missing, dialect, width == 1 && missing.empty());
                } else {
                    put_number(lines, source, i, dialect);
                }
            }
        }
        lines.put(line_end);
    }
    lines.finish();
    return out;
}

} // namespace headrace::csv
