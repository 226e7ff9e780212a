#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "core/text/decimal.hpp"

namespace headrace::json {

using Text = const char*;

[[nodiscard]] inline std::string_view between(Text begin, Text end) noexcept {
    return {begin, static_cast<std::size_t>(end - begin)};
}

/// A number as it is written: `mantissa` (which has wrapped around after more than 19 digits) times 10^`exponent`.
struct Number {
    std::uint64_t mantissa = 0;
    std::int64_t exponent = 0;
    std::ptrdiff_t digits = 0; ///< Leading zeros included.
    bool negative = false;
    bool whole = true;
};

inline constexpr std::ptrdiff_t most_digits = 19; ///< These always fit in 64 bits.

/// A position in a line. Each function takes something from there and returns false if that is not there. No byte is
/// taken for granted because it was seen before: others may change the file meanwhile.
class Reader {
  public:
    Reader(Text at, Text end) noexcept : at_(at), end_(end) {}

    [[nodiscard]] bool done() const noexcept { return at_ == end_; }
    [[nodiscard]] char front() const noexcept { return at_ == end_ ? '\0' : *at_; }

    /// What was read since `begin`.
    [[nodiscard]] std::string_view since(const Reader& begin) const noexcept { return between(begin.at_, at_); }

    /// A reader of what lies before `later`, which has read more of the same line.
    [[nodiscard]] Reader up_to(const Reader& later) const noexcept { return {at_, later.at_}; }

    /// Goes to where `later` is, which has read more of the same line.
    void move_to(const Reader& later) noexcept { at_ = later.at_; }

    bool take(char wanted) noexcept {
        if (at_ == end_ || *at_ != wanted) return false;
        ++at_;
        return true;
    }

    bool take(std::string_view word) noexcept {
        if (!between(at_, end_).starts_with(word)) return false;
        at_ += word.size();
        return true;
    }

    void skip_blanks() noexcept {
        while (at_ != end_ && (*at_ == ' ' || *at_ == '\t')) ++at_;
    }

    void skip_blanks_and_ends() noexcept {
        while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r' || *at_ == '\n')) ++at_;
    }

    /// A comma, or the end of a list or object, which sets `ended`.
    bool next(char closing, bool& ended) noexcept {
        skip_blanks();
        ended = front() == closing;
        if (!ended && front() != ',') return false;
        ++at_;
        if (!ended) skip_blanks();
        return true;
    }

    bool number(Number& number) noexcept {
        number.negative = take('-');
        const Text begin = at_;
        number.mantissa = 0;
        at_ = read_digits(at_, end_, number.mantissa);
        number.digits = at_ - begin;
        if (number.digits == 0 || (*begin == '0' && number.digits > 1)) return false;
        number.exponent = 0;
        number.whole = true;
        if (at_ != end_ && (*at_ == '.' || *at_ == 'e' || *at_ == 'E')) return rest_of(number);
        return true;
    }

    /// The text between quotes, as it is written. `escaped` says whether there are escapes in it.
    bool raw_text(std::string_view& raw, bool& escaped) noexcept {
        if (!take('"')) return false;
        const Text begin = at_;
        escaped = false;
        while (true) {
            at_ = plain_until(at_, end_);
            if (at_ == end_ || static_cast<unsigned char>(*at_) < 0x20) return false;
            if (*at_ == '"') break;
            escaped = true;
            if (end_ - at_ < 2) return false;
            at_ += 2;
        }
        raw = between(begin, at_++);
        return true;
    }

    /// Skips any value and checks it.
    bool skip_value(unsigned depth, std::string& room) { // NOLINT(misc-no-recursion): `depth` bounds it
        switch (front()) {
        case '"': {
            const std::size_t wanted = left() + text_room;
            if (room.size() < wanted) room.resize(wanted);
            return copy_text(room.data()) != nullptr;
        }
        case '[': return skip_members(']', depth, room);
        case '{': return skip_members('}', depth, room);
        case 't': return take("true");
        case 'f': return take("false");
        case 'n': return take("null");
        default: {
            Number skipped;
            return number(skipped);
        }
        }
    }

    /// Copies the text between quotes, escapes replaced. Returns the end of the copy, which takes at most left() bytes,
    /// and up to `text_room` bytes behind it are written, too. nullptr: it is not plain, for example if an escape does
    /// not exist, or is half a surrogate pair or NUL.
    char* copy_text(char* to) noexcept {
        if (!take('"')) return nullptr;
        while (true) {
            std::uint64_t found = 0;
            while (found == 0 && end_ - at_ >= std::ptrdiff_t{sizeof found}) {
                std::uint64_t word = 0;
                std::memcpy(&word, at_, sizeof word);
                std::memcpy(to, &word, sizeof word);
                found = special_in(word);
                const int copied = found == 0 ? 8 : std::countr_zero(found) / 8;
                at_ += copied;
                to += copied;
            }
            for (; found == 0 && at_ != end_ && !is_special(*at_); ++at_) *to++ = *at_;
            if (at_ == end_) return nullptr;
            if (*at_ == '"') {
                ++at_;
                return to;
            }
            while (at_ != end_ && *at_ == '\\') { // in a row, mostly, where a text is not English
                to = unescape(to);
                if (to == nullptr) return nullptr;
            }
            if (at_ == end_ || static_cast<unsigned char>(*at_) < 0x20) return nullptr;
        }
    }

    static constexpr std::size_t text_room = sizeof(std::uint64_t);

    [[nodiscard]] std::size_t left() const noexcept { return static_cast<std::size_t>(end_ - at_); }

  private:
    static bool is_special(char byte) noexcept {
        return byte == '"' || byte == '\\' || static_cast<unsigned char>(byte) < 0x20;
    }

    /// Quotes, backslashes and control characters; exact up to the first.
    static std::uint64_t special_in(std::uint64_t word) noexcept {
        constexpr std::uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
        const auto zeros = [](std::uint64_t bytes) { return (bytes - ones) & ~bytes; };
        const std::uint64_t controls = (word - ones * 0x20) & ~word;
        return (zeros(word ^ (ones * '"')) | zeros(word ^ (ones * '\\')) | controls) & tops;
    }

    /// The first of them.
    static Text plain_until(Text at, Text end) noexcept {
        while (end - at >= std::ptrdiff_t{sizeof(std::uint64_t)}) {
            std::uint64_t word = 0;
            std::memcpy(&word, at, sizeof word);
            const std::uint64_t found = special_in(word);
            if (found != 0) return at + std::countr_zero(found) / 8;
            at += sizeof word;
        }
        while (at != end && !is_special(*at)) ++at;
        return at;
    }

    /// Writes the character of the escape that begins here, and moves behind it. Returns the end; nullptr if there is
    /// no such escape.
    char* unescape(char* to) noexcept {
        if (end_ - at_ < 2) return nullptr;
        if (at_[1] != 'u') {
            *to = meanings[static_cast<unsigned char>(at_[1])];
            at_ += 2;
            return *to == '\0' ? nullptr : to + 1;
        }
        std::int32_t code = code_at(0);
        if (code <= 0 || code >> 10 == 0xDC00 >> 10) return nullptr;
        at_ += escape_size;
        if (code >> 10 == 0xD800 >> 10) {
            const std::int32_t low = code_at(0);
            if (low >> 10 != 0xDC00 >> 10 || at_[0] != '\\' || at_[1] != 'u') return nullptr;
            at_ += escape_size;
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        }
        return put_utf8(static_cast<std::uint32_t>(code), to);
    }

    static constexpr std::ptrdiff_t escape_size = 6; // of a backslash, u, and four digits

    /// The number in the four digits of an escape here; negative if there is none.
    [[nodiscard]] std::int32_t code_at(std::ptrdiff_t offset) const noexcept {
        if (end_ - at_ < offset + escape_size) return -1;
        const auto digit = [&](std::ptrdiff_t i) -> std::int32_t {
            return digits[static_cast<unsigned char>(at_[offset + i])];
        };
        return digit(2) << 12 | digit(3) << 8 | digit(4) << 4 | digit(5);
    }

    static char* put_utf8(std::uint32_t code, char* to) noexcept {
        const auto last = [&](unsigned shift) { *to++ = static_cast<char>(0x80 | (code >> shift & 0x3F)); };
        if (code < 0x80) {
            *to++ = static_cast<char>(code);
        } else if (code < 0x800) {
            *to++ = static_cast<char>(0xC0 | code >> 6);
            last(0);
        } else if (code < 0x10000) {
            *to++ = static_cast<char>(0xE0 | code >> 12);
            last(6);
            last(0);
        } else {
            *to++ = static_cast<char>(0xF0 | code >> 18);
            last(12);
            last(6);
            last(0);
        }
        return to;
    }

    /// What the letter of an escape means; NUL: nothing.
    static constexpr std::array<char, 256> meanings = [] {
        std::array<char, 256> table{};
        constexpr std::string_view letters = "\"\\/bfnrt", of = "\"\\/\b\f\n\r\t";
        for (std::size_t i = 0; i < letters.size(); ++i) table[static_cast<unsigned char>(letters[i])] = of[i];
        return table;
    }();

    /// Values of hexadecimal digits; -1: not one.
    static constexpr std::array<std::int8_t, 256> digits = [] {
        std::array<std::int8_t, 256> table{};
        table.fill(-1);
        constexpr std::string_view small = "0123456789abcdef", large = "0123456789ABCDEF";
        for (std::size_t i = 0; i < small.size(); ++i)
            table[static_cast<unsigned char>(small[i])] = table[static_cast<unsigned char>(large[i])] =
                static_cast<std::int8_t>(i);
        return table;
    }();

    bool rest_of(Number& number) noexcept {
        number.whole = false;
        if (take('.')) {
            const Text begin = at_;
            at_ = read_digits(at_, end_, number.mantissa);
            if (at_ == begin) return false;
            number.digits += at_ - begin;
            number.exponent = begin - at_;
        }
        if (at_ == end_ || (*at_ != 'e' && *at_ != 'E')) return true;
        ++at_;
        const bool negative = take('-');
        if (!negative) (void)take('+');
        const Text begin = at_;
        std::uint64_t exponent = 0;
        at_ = read_digits(at_, end_, exponent);
        constexpr std::ptrdiff_t most_exponent_digits = 6;
        if (at_ == begin || at_ - begin > most_exponent_digits) return false;
        number.exponent += negative ? -static_cast<std::int64_t>(exponent) : static_cast<std::int64_t>(exponent);
        return true;
    }

    bool skip_members(char closing, unsigned depth, std::string& room) { // NOLINT(misc-no-recursion): as above
        if (depth == 0) return false;
        ++at_;
        skip_blanks();
        if (take(closing)) return true;
        for (bool ended = false; !ended;) {
            if (closing == '}') {
                if (front() != '"' || !skip_value(0, room)) return false;
                skip_blanks();
                if (!take(':')) return false;
                skip_blanks();
            }
            if (!skip_value(depth - 1, room) || !next(closing, ended)) return false;
        }
        return true;
    }

    Text at_;
    Text end_;
};

} // namespace headrace::json
