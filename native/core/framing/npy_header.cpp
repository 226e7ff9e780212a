#include "core/framing/npy_header.hpp"

#include <array>
#include <string_view>
#include <utility>

namespace headrace::npy {
namespace {

constexpr std::array<unsigned char, 6> magic = {0x93, 'N', 'U', 'M', 'P', 'Y'};
constexpr int deepest = 32;

void append_utf8(std::string& to, std::uint32_t code) {
    const auto put = [&to](std::uint32_t byte) { to.push_back(static_cast<char>(byte)); };
    if (code < 0x80) {
        put(code);
    } else if (code < 0x800) {
        put(0xC0 | code >> 6), put(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
    } else {
        put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 0x3F)), put(0x80 | (code >> 6 & 0x3F)),
            put(0x80 | (code & 0x3F));
    }
}

// The offset at which the text stops being valid UTF-8 (without overlong forms and surrogates), or its size.
std::size_t valid_utf8(Bytes text) {
    std::size_t at = 0;
    while (at < text.size()) {
        const auto lead = std::to_integer<std::uint32_t>(text[at]);
        const std::size_t more = lead < 0x80   ? 0
                                 : lead < 0xC2 ? 4
                                 : lead < 0xE0 ? 1
                                 : lead < 0xF0 ? 2
                                 : lead < 0xF5 ? 3
                                               : 4;
        if (more == 4 || text.size() - at <= more) return at;
        std::uint32_t code = more == 0 ? lead : lead & (0x3FU >> more);
        for (std::size_t k = 1; k <= more; ++k) {
            const auto next = std::to_integer<std::uint32_t>(text[at + k]);
            if ((next & 0xC0) != 0x80) return at;
            code = code << 6 | (next & 0x3F);
        }
        const bool overlong = (more == 2 && code < 0x800) || (more == 3 && code < 0x10000);
        if (overlong || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return at;
        at += more + 1;
    }
    return at;
}

/// Parses the literal, with one method per grammar rule.
class Parser {
  public:
    Parser(Bytes text, std::uint64_t base, std::uint8_t major) : text_(text), base_(base), major_(major) {}

    Header dict() {
        Header header;
        bool descr = false, order = false, shape = false;
        while (peek() == ' ' || peek() == '\t') ++at_;
        if (peek() != '{') fail();
        ++at_;
        while (!accept('}')) {
            const std::string key = string();
            want(':');
            if (key == "descr" && !std::exchange(descr, true)) {
                header.descr = type();
            } else if (key == "fortran_order" && !std::exchange(order, true)) {
                header.fortran_order = truth();
            } else if (key == "shape" && !std::exchange(shape, true)) {
                header.shape = lengths();
            } else {
                fail();
            }
            if (!accept(',')) {
                want('}');
                break;
            }
        }
        if (!(descr && order && shape)) fail();
        while (peek() == ' ' || peek() == '\t') ++at_;
        while (peek() == '\n') ++at_;
        if (at_ < text_.size()) fail(); // Only padding and the final newline may follow.
        return header;
    }

  private:
    [[noreturn]] void fail() const { throw FormatError(Fault::header, base_ + at_); }

    [[nodiscard]] char peek() const { return at_ < text_.size() ? static_cast<char>(text_[at_]) : '\0'; }
    static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'; }
    static bool is_digit(char c) { return c >= '0' && c <= '9'; }

    void skip_blanks() {
        while (is_blank(peek())) ++at_;
    }
    bool accept(char c) {
        skip_blanks();
        if (at_ >= text_.size() || peek() != c) return false;
        ++at_;
        return true;
    }
    void want(char c) {
        if (!accept(c)) fail();
    }
    bool accept_word(std::string_view word) {
        skip_blanks();
        if (text_.size() - at_ < word.size()) return false;
        for (std::size_t i = 0; i < word.size(); ++i)
            if (static_cast<char>(text_[at_ + i]) != word[i]) return false;
        at_ += word.size();
        return true;
    }

    // A dtype: a type string, a list of fields, or a type and a shape.
    Literal type() {
        Literal out = value(0);
        if (out.kind == Literal::Kind::number || out.kind == Literal::Kind::truth) fail();
        return out;
    }

    bool truth() {
        if (accept_word("True")) return true;
        if (!accept_word("False")) fail();
        return false;
    }

    std::uint64_t number() {
        skip_blanks();
        if (!is_digit(peek())) fail();
        const bool leading_zero = peek() == '0';
        const std::size_t first = at_;
        std::uint64_t n = 0;
        while (is_digit(peek())) {
            const auto digit = static_cast<std::uint64_t>(peek() - '0');
            if (n > (std::uint64_t{INT64_MAX} - digit) / 10) fail();
            n = n * 10 + digit;
            ++at_;
        }
        if (leading_zero && at_ - first > 1) fail(); // Python accepts 0, but not 00 or 07
        if (major_ <= 2 && peek() == 'L') ++at_;     // Python 2 wrote 3L
        return n;
    }

    std::vector<std::uint64_t> lengths() {
        std::vector<std::uint64_t> out;
        want('(');
        while (!accept(')')) {
            out.push_back(number());
            if (accept(',')) continue;
            if (out.size() == 1) fail(); // (3) is a number, (3,) a tuple
            want(')');
            break;
        }
        return out;
    }

    std::string string() {
        skip_blanks();
        if (peek() == 'u') ++at_;
        const char quote = peek();
        if (quote != '\'' && quote != '"') fail();
        ++at_;
        std::string out;
        while (peek() != quote) {
            if (peek() == '\0' || peek() == '\n' || peek() == '\r') fail(); // also at the end
            character(out);
        }
        ++at_;
        return out;
    }

    // Versions 1 and 2 are Latin-1, version 3 is UTF-8 already.
    void character(std::string& out) {
        const auto byte = std::to_integer<std::uint32_t>(text_[at_++]);
        if (byte == '\\') {
            escape(out);
        } else if (major_ <= 2) {
            append_utf8(out, byte);
        } else {
            out.push_back(static_cast<char>(byte));
        }
    }

    void escape(std::string& out) {
        const char kind = peek();
        ++at_;
        switch (kind) {
        case '\\':
        case '\'':
        case '"': out.push_back(kind); return;
        case 'n': out.push_back('\n'); return;
        case 't': out.push_back('\t'); return;
        case 'r': out.push_back('\r'); return;
        case 'x': append_utf8(out, hex(2)); return;
        case 'u': append_utf8(out, hex(4)); return;
        case 'U': append_utf8(out, hex(8)); return;
        default: --at_; fail();
        }
    }

    std::uint32_t hex(int digits) {
        std::uint32_t code = 0;
        for (; digits > 0; --digits, ++at_) {
            const char c = peek();
            const int digit = is_digit(c)            ? c - '0'
                              : c >= 'a' && c <= 'f' ? c - 'a' + 10
                              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                     : -1;
            if (digit < 0) fail();
            code = code << 4 | static_cast<std::uint32_t>(digit);
        }
        if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) fail();
        return code;
    }

    // NOLINTNEXTLINE(misc-no-recursion): lists nest at most `deepest` levels.
    Literal value(int depth) {
        if (depth > deepest) fail();
        skip_blanks();
        const char c = peek();
        Literal out;
        if (c == '(' || c == '[') {
            ++at_;
            out.kind = c == '(' ? Literal::Kind::tuple : Literal::Kind::list;
            items(out, c == '(' ? ')' : ']', depth);
        } else if (is_digit(c)) {
            out.kind = Literal::Kind::number;
            out.number = number();
        } else if (c == 'T' || c == 'F') {
            out.kind = Literal::Kind::truth;
            out.number = truth() ? 1 : 0;
        } else {
            out.kind = Literal::Kind::text;
            out.text = string();
        }
        return out;
    }

    // NOLINTNEXTLINE(misc-no-recursion): value() limits the depth.
    void items(Literal& out, char close, int depth) {
        while (!accept(close)) {
            out.items.push_back(value(depth + 1));
            if (accept(',')) continue;
            if (close == ')' && out.items.size() == 1) fail();
            want(close);
            break;
        }
    }

    Bytes text_;
    std::size_t at_ = 0;
    std::uint64_t base_;
    std::uint8_t major_;
};

} // namespace

Header parse(Bytes file, std::size_t most) {
    for (std::size_t i = 0; i < magic.size() && i < file.size(); ++i)
        if (std::to_integer<unsigned char>(file[i]) != magic[i]) throw FormatError(Fault::magic, i);
    Cursor cursor(file);
    cursor.skip(magic.size());
    const auto major = cursor.le<std::uint8_t>();
    const auto minor = cursor.le<std::uint8_t>();
    if (major < 1 || major > 3 || minor != 0) throw FormatError(Fault::header, magic.size());
    const std::uint64_t length = major == 1 ? cursor.le<std::uint16_t>() : cursor.le<std::uint32_t>();
    if (length > most) throw FormatError(Fault::range, cursor.offset(), most, length);
    const std::uint64_t base = cursor.offset();
    const Bytes there = cursor.take(length);
    const std::vector<std::byte> text(there.begin(),
                                      there.end()); // Copied, so that it cannot change after validation.
    if (const std::size_t valid = major == 3 ? valid_utf8(text) : text.size(); valid != text.size())
        throw FormatError(Fault::header, base + valid);
    Header header = Parser(text, base, major).dict();
    header.major = major;
    header.minor = minor;
    header.data_offset = cursor.offset();
    return header;
}

} // namespace headrace::npy
