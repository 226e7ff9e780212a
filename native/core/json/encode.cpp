#include "core/json/encode.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <clocale>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "core/csv/number.hpp"

namespace headrace::json {
namespace {

static_assert(most_float >= csv::most_digits);

constexpr std::size_t at_once = 256; ///< Values for which room is made together.

/// Text in a block that grows. Callers make room before they write.
class Page {
  public:
    Page(std::shared_ptr<Pool> pool, std::size_t expected)
        : pool_(std::move(pool)),
          block_(pool_->take(std::max<std::size_t>(expected, 1))) {}

    char* room(std::size_t size) {
        if (block_.capacity() - used_ < size) [[unlikely]]
            grow(size);
        return reinterpret_cast<char*>(block_.data()) + used_;
    }

    void upto(const char* end) noexcept {
        used_ = static_cast<std::size_t>(end - reinterpret_cast<const char*>(block_.data()));
    }

    void put(std::string_view text) {
        if (!text.empty()) std::memcpy(room(text.size()), text.data(), text.size());
        used_ += text.size();
    }

    void put(char byte) {
        *room(1) = byte;
        ++used_;
    }

    Lines take() noexcept { return {std::move(block_), used_}; }

  private:
    void grow(std::size_t size) {
        Pool::Block larger = pool_->take(2 * block_.capacity() + size);
        std::memcpy(larger.data(), block_.data(), used_);
        block_ = std::move(larger);
    }

    std::shared_ptr<Pool> pool_;
    Pool::Block block_;
    std::size_t used_ = 0;
};

/// What is written for each byte of a text in place of the byte itself; nothing: the byte stays.
struct Escape {
    std::array<char, 6> text{};
    std::uint8_t size = 0;
};

constexpr std::array<Escape, 256> escapes = [] {
    std::array<Escape, 256> table{};
    constexpr std::string_view digits = "0123456789abcdef", letters = "\"\\\b\f\n\r\t", names = "\"\\bfnrt";
    for (std::size_t byte = 0; byte < 0x20; ++byte)
        table[byte] = {{'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]}, 6};
    for (std::size_t i = 0; i < letters.size(); ++i)
        table[static_cast<unsigned char>(letters[i])] = {{'\\', names[i]}, 2};
    return table;
}();

/// Whether any of these bytes needs an escape. A loop of fixed length without branches, which compilers vectorise.
template <std::size_t Size> bool any_escape(const std::byte* from) noexcept {
    unsigned found = 0;
    for (std::size_t i = 0; i < Size; ++i) {
        const auto byte = static_cast<unsigned char>(from[i]);
        found |= static_cast<unsigned>(byte < 0x20) | static_cast<unsigned>(byte == '"') |
                 static_cast<unsigned>(byte == '\\');
    }
    return found != 0;
}

void put_text(Page& page, Bytes text) {
    constexpr std::size_t step = 32, stretch = 4096;
    page.put('"');
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t stop = std::min(text.size(), at + stretch);
        char* to = page.room((stop - at) * sizeof(Escape::text));
        while (at < stop) {
            if (stop - at >= step && !any_escape<step>(text.data() + at)) {
                std::memcpy(to, text.data() + at, step);
                at += step;
                to += step;
                continue;
            }
            for (const std::size_t end = std::min(stop, at + step); at < end; ++at) {
                const auto byte = static_cast<unsigned char>(text[at]);
                const Escape& escape = escapes[byte];
                if (escape.size == 0) {
                    *to++ = static_cast<char>(byte);
                } else {
                    std::memcpy(to, escape.text.data(), escape.size);
                    to += escape.size;
                }
            }
        }
        page.upto(to);
    }
    page.put('"');
}

template <typename T> T load(Bytes numbers, std::size_t i) noexcept {
    T value;
    std::memcpy(&value, numbers.data() + i * sizeof value, sizeof value);
    return value;
}

/// Writes one number or truth value. Returns nullptr if JSON does not have it.
template <typename T> char* write(char* to, T value) noexcept {
    if constexpr (std::is_floating_point_v<T>) {
        if (std::isfinite(value)) [[likely]]
            return write_float(to, value);
        return std::isnan(value) ? std::ranges::copy(std::string_view("null"), to).out : nullptr;
    } else {
        return std::to_chars(to, to + most_float, value).ptr;
    }
}

std::size_t size_of(Leaf leaf) noexcept {
    switch (leaf) {
    case Leaf::int8:
    case Leaf::uint8:
    case Leaf::boolean: return 1;
    case Leaf::int16:
    case Leaf::uint16: return 2;
    case Leaf::int32:
    case Leaf::uint32:
    case Leaf::float32: return 4;
    case Leaf::int64:
    case Leaf::uint64:
    case Leaf::float64: return 8;
    default: return 1;
    }
}

bool is_text(Leaf leaf) noexcept { return leaf == Leaf::text || leaf == Leaf::value; }

/// Writes the values of one column, all of which it checks to be there.
class Cells {
  public:
    explicit Cells(const Source& source) : source_(source), counts_(source.lists.size() + 1) {
        counts_.back() = is_text(source.leaf) ? source.texts.count() : source.numbers.size() / size_of(source.leaf);
        for (std::size_t level = source.lists.size(); level-- > 0;) {
            const Lists& lists = source.lists[level];
            counts_[level] = lists.offsets != nullptr ? lists.count
                             : lists.length != 0      ? counts_[level + 1] / lists.length
                                                      : SIZE_MAX;
        }
    }

    [[nodiscard]] std::size_t rows() const noexcept { return counts_.front(); }

    /// A guess of the bytes that all of it takes.
    [[nodiscard]] std::size_t expected() const {
        constexpr std::size_t number = 12, marks = 3;
        const std::size_t values = counts_.back() * (is_text(source_.leaf) ? marks : number);
        return values + (is_text(source_.leaf) ? source_.texts.all().size() : 0);
    }

    /// The `i`-th list of `level`, or value: i is below the count of that level.
    bool put(Page& page, std::size_t level, std::size_t i) const { // NOLINT(misc-no-recursion): the lists bound it
        if (level == source_.lists.size()) return put_values(page, i, i + 1);
        const Lists& lists = source_.lists[level];
        std::size_t begin = i * lists.length, end = begin + lists.length;
        if (lists.offsets != nullptr) {
            begin = static_cast<std::size_t>(lists.offsets[i]);
            end = static_cast<std::size_t>(lists.offsets[i + 1]);
            if (begin > end || end > counts_[level + 1]) return false;
        }
        page.put('[');
        if (level + 1 == source_.lists.size()) {
            if (!put_values(page, begin, end)) return false;
        } else {
            for (std::size_t k = begin; k < end; ++k) {
                if (k != begin) page.put(',');
                if (!put(page, level + 1, k)) return false;
            }
        }
        page.put(']');
        return true;
    }

  private:
    bool put_values(Page& page, std::size_t begin, std::size_t end) const {
        switch (source_.leaf) {
        case Leaf::int8: return put_numbers<std::int8_t>(page, begin, end);
        case Leaf::int16: return put_numbers<std::int16_t>(page, begin, end);
        case Leaf::int32: return put_numbers<std::int32_t>(page, begin, end);
        case Leaf::int64: return put_numbers<std::int64_t>(page, begin, end);
        case Leaf::uint8: return put_numbers<std::uint8_t>(page, begin, end);
        case Leaf::uint16: return put_numbers<std::uint16_t>(page, begin, end);
        case Leaf::uint32: return put_numbers<std::uint32_t>(page, begin, end);
        case Leaf::uint64: return put_numbers<std::uint64_t>(page, begin, end);
        case Leaf::float32: return put_numbers<float>(page, begin, end);
        case Leaf::float64: return put_numbers<double>(page, begin, end);
        case Leaf::boolean:
            return put_each(page, begin, end, [&](std::size_t i) {
                page.put(source_.numbers[i] != std::byte{0} ? std::string_view("true") : std::string_view("false"));
            });
        case Leaf::text: return put_each(page, begin, end, [&](std::size_t i) { put_text(page, source_.texts.at(i)); });
        default:
            return put_each(page, begin, end, [&](std::size_t i) {
                const Bytes text = source_.texts.at(i);
                page.put({reinterpret_cast<const char*>(text.data()), text.size()});
            });
        }
    }

    template <typename Put> static bool put_each(Page& page, std::size_t begin, std::size_t end, Put&& put) {
        for (std::size_t i = begin; i < end; ++i) {
            if (i != begin) page.put(',');
            put(i);
        }
        return true;
    }

    template <typename T> bool put_numbers(Page& page, std::size_t begin, std::size_t end) const {
        for (std::size_t i = begin; i < end;) {
            const std::size_t stop = std::min(end, i + at_once);
            char* to = page.room((stop - i) * (most_float + 1));
            for (; i < stop; ++i) {
                if (i != begin) *to++ = ',';
                to = write(to, load<T>(source_.numbers, i));
                if (to == nullptr) return false;
            }
            page.upto(to);
        }
        return true;
    }

    const Source& source_;
    std::vector<std::size_t> counts_; ///< How many lists there are at each depth, then how many values.
};

/// The exponent behind the e of `text`, which ends there.
int exponent_in(const char* text, const char* end) noexcept {
    int exponent = 0;
    (void)std::from_chars(text + (*text == '+' ? 1 : 0), end, exponent);
    return exponent;
}

} // namespace

char* write_float(char* to, double value) noexcept {
    constexpr double millionth = 1e-6, million = 1e6, most = 1e15, least = 1e-4, most_whole = 9007199254740992.0;
    double size = std::abs(value);
    if (std::signbit(value)) *to++ = '-';
    if (size < most_whole && size == std::floor(size)) { // Every such whole number is a float of its own.
        to = std::to_chars(to, to + most_float, static_cast<std::uint64_t>(size)).ptr;
        return std::ranges::copy(std::string_view(".0"), to).out;
    }
    // Decimals of up to 15 digits are floats of their own, too, so one that is this float is its shortest text.
    const double scaled = size >= least && size < most * millionth ? std::nearbyint(size * million) : 0;
    if (scaled / million != size) return csv::write_float64(to, size, '.');
    const auto number = static_cast<std::uint64_t>(scaled);
    to = std::to_chars(to, to + most_float, number / 1'000'000).ptr;
    *to = '.';
    auto rest = static_cast<std::uint32_t>(number % 1'000'000);
    int digits = 6;
    for (; digits > 1 && rest % 10 == 0; --digits) rest /= 10;
    for (int i = digits; i > 0; --i, rest /= 10) to[i] = static_cast<char>('0' + rest % 10);
    return to + digits + 1;
}

char* write_float(char* to, float value) noexcept {
    constexpr float most_whole = 16777216.0F;
    if (std::abs(value) < most_whole && value == std::floor(value)) return write_float(to, static_cast<double>(value));
#if defined(__cpp_lib_to_chars)
    std::array<char, most_float> text; // d.ddde-XX
    const float size = std::abs(value);
    const char* const end =
        std::to_chars(text.data(), text.data() + text.size(), size, std::chars_format::scientific).ptr;
    const char* const mark = static_cast<const char*>(std::memchr(text.data(), 'e', most_float));
    std::array<char, most_float> digits;
    digits[0] = text[0];
    std::size_t count = 1;
    for (const char* at = text.data() + 2; at < mark; ++at) digits[count++] = *at;
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < count; ++i) number = number * 10 + static_cast<unsigned>(digits[i] - '0');
    const int exponent = exponent_in(mark + 1, end);
    const int scale = static_cast<int>(count) - 1 - exponent; // the value is number / 10^scale
    constexpr std::array<double, 23> tens = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                             1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (exponent < -4 || exponent >= 16 || scale < 0 || std::cmp_greater_equal(scale, tens.size())) {
        double wide = 0;
        (void)csv::read_float64({text.data(), static_cast<std::size_t>(end - text.data())}, '.', wide);
        if (static_cast<float>(wide) != size) wide = static_cast<double>(size);
        return write_float(to, std::signbit(value) ? -wide : wide);
    }
    // One rounding, because both are exact. It is a second one for the float, which may end elsewhere.
    if (static_cast<float>(static_cast<double>(number) / tens[static_cast<std::size_t>(scale)]) != size)
        return write_float(to, static_cast<double>(value));
    if (std::signbit(value)) *to++ = '-';
    if (exponent < 0) {
        (void)std::ranges::copy(std::string_view("0.0000"), to);
        to += 1 - exponent;
        std::memcpy(to, digits.data(), count);
        return to + count;
    }
    const auto whole = static_cast<std::size_t>(exponent) + 1;
    std::memcpy(to, digits.data(), whole);
    to[whole] = '.';
    if (count == whole) {
        to[whole + 1] = '0';
        return to + whole + 2;
    }
    std::memcpy(to + whole + 1, digits.data() + whole, count - whole);
    return to + count + 1;
#else
    constexpr int most_digits = 9;
    double wide = static_cast<double>(value);
    for (int digits = 1; digits <= most_digits; ++digits) {
        std::array<char, most_float> text;
        std::snprintf(text.data(), text.size(), "%.*e", digits - 1, static_cast<double>(value));
        double found = 0;
        if (csv::read_float64(text.data(), *std::localeconv()->decimal_point, found) == 0 ||
            static_cast<float>(found) != value)
            continue;
        wide = found;
        break;
    }
    return write_float(to, wide);
#endif
}

std::optional<Lines> encode(std::span<const Source> sources, std::size_t rows, const std::shared_ptr<Pool>& pool) {
    if (sources.empty()) return std::nullopt;
    std::vector<Cells> cells;
    std::vector<std::string> befores;
    std::size_t expected = 0;
    try {
        for (const Source& source : sources) {
            befores.push_back((cells.empty() ? "{" : ",") + std::string(source.key) + ':');
            cells.emplace_back(source);
            if (cells.back().rows() < rows) return std::nullopt;
            if (is_text(source.leaf) && first_not_utf8(source.texts)) return std::nullopt;
            expected += cells.back().expected() + rows * (source.key.size() + 2);
        }
        Page page(pool, expected);
        for (std::size_t row = 0; row < rows; ++row) {
            for (std::size_t k = 0; k < sources.size(); ++k) {
                page.put(befores[k]);
                if (!cells[k].put(page, 0, row)) return std::nullopt;
            }
            page.put("}\n");
        }
        return page.take();
    } catch (const FormatError&) { // of a text outside its column
        return std::nullopt;
    }
}

} // namespace headrace::json
