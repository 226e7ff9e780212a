#include "core/json/decode.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/csv/number.hpp"
#include "core/text/decimal.hpp"
#include "core/text/utf8.hpp"

namespace headrace::json {
namespace {

using Text = const char*;

std::string_view between(Text begin, Text end) noexcept { return {begin, static_cast<std::size_t>(end - begin)}; }

/// A number as it is written: `mantissa` (which has wrapped around after more than 19 digits) times 10^`exponent`.
struct Number {
    std::uint64_t mantissa = 0;
    std::int64_t exponent = 0;
    std::ptrdiff_t digits = 0; ///< Leading zeros included.
    bool negative = false;
    bool whole = true;
};

constexpr std::ptrdiff_t most_digits = 19; ///< These always fit in 64 bits.

/// A position in a line. Each function takes something from there and returns false if that is not there. No byte is
/// taken for granted because it was seen before: others may change the file meanwhile.
class Reader {
  public:
    Reader(Text at, Text end) noexcept : at_(at), end_(end) {}

    [[nodiscard]] bool done() const noexcept { return at_ == end_; }
    [[nodiscard]] char front() const noexcept { return at_ == end_ ? '\0' : *at_; }

    /// What was read since `begin`.
    [[nodiscard]] std::string_view since(const Reader& begin) const noexcept { return between(begin.at_, at_); }

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
            std::string_view raw;
            bool escaped = false;
            return raw_text(raw, escaped) && (!escaped || unescape(raw, room));
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

    /// Replaces escapes. Returns false for one that does not exist, half a surrogate pair, and NUL.
    static bool unescape(std::string_view raw, std::string& to) {
        to.clear();
        for (std::size_t i = 0; i < raw.size(); ++i) {
            if (raw[i] != '\\') {
                const std::size_t next = std::min(raw.find('\\', i), raw.size());
                to.append(raw.substr(i, next - i));
                i = next - 1;
                continue;
            }
            if (++i == raw.size()) return false;
            if (raw[i] != 'u') {
                constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
                const std::size_t which = letters.find(raw[i]);
                if (which == std::string_view::npos) return false;
                to.push_back(meanings[which]);
                continue;
            }
            std::uint32_t code = 0, low = 0;
            if (!four_digits(raw.substr(i + 1), code) || code == 0) return false;
            i += 4;
            if (code >= 0xD800 && code < 0xE000) {
                if (code >= 0xDC00 || raw.substr(i + 1, 2) != "\\u" || !four_digits(raw.substr(i + 3), low))
                    return false;
                if (low < 0xDC00 || low >= 0xE000) return false;
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                i += 6;
            }
            append_utf8(code, to);
        }
        return true;
    }

  private:
    /// The first quote, backslash or control character.
    static Text plain_until(Text at, Text end) noexcept {
        constexpr std::uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
        const auto zeros = [](std::uint64_t word) { return (word - ones) & ~word; };
        while (end - at >= std::ptrdiff_t{sizeof(std::uint64_t)}) {
            std::uint64_t word = 0;
            std::memcpy(&word, at, sizeof word);
            const std::uint64_t controls = (word - ones * 0x20) & ~word;
            const std::uint64_t found = (zeros(word ^ (ones * '"')) | zeros(word ^ (ones * '\\')) | controls) & tops;
            if (found != 0) return at + std::countr_zero(found) / 8; // exact up to the first
            at += sizeof word;
        }
        while (at != end && *at != '"' && *at != '\\' && static_cast<unsigned char>(*at) >= 0x20) ++at;
        return at;
    }

    static bool four_digits(std::string_view text, std::uint32_t& code) noexcept {
        code = 0;
        if (text.size() < 4) return false;
        for (const char digit : text.substr(0, 4)) {
            const char lower = static_cast<char>(digit | 0x20);
            if (is_digit(digit)) code = code << 4 | static_cast<unsigned>(digit - '0');
            else if (lower >= 'a' && lower <= 'f') code = code << 4 | static_cast<unsigned>(lower - 'a' + 10);
            else return false;
        }
        return true;
    }

    static void append_utf8(std::uint32_t code, std::string& to) {
        const auto last = [&](unsigned shift) { to.push_back(static_cast<char>(0x80 | (code >> shift & 0x3F))); };
        if (code < 0x80) {
            to.push_back(static_cast<char>(code));
        } else if (code < 0x800) {
            to.push_back(static_cast<char>(0xC0 | code >> 6));
            last(0);
        } else if (code < 0x10000) {
            to.push_back(static_cast<char>(0xE0 | code >> 12));
            last(6);
            last(0);
        } else {
            to.push_back(static_cast<char>(0xF0 | code >> 18));
            last(12);
            last(6);
            last(0);
        }
    }

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

/// Numbers one after another in a block that grows.
class Numbers {
  public:
    Numbers() = default;
    Numbers(std::shared_ptr<Pool> pool, std::size_t size, std::size_t expected)
        : pool_(std::move(pool)),
          block_(pool_->take(std::max<std::size_t>(expected, 1) * size)),
          size_(size),
          room_(block_.capacity() / size) {}

    template <typename T> void add(T value) {
        if (count_ == room_) [[unlikely]]
            grow();
        std::memcpy(block_.data() + count_++ * sizeof value, &value, sizeof value);
    }

    [[nodiscard]] std::size_t count() const noexcept { return count_; }
    [[nodiscard]] Pool::Block finish() noexcept { return std::move(block_); }

  private:
    void grow() {
        Pool::Block larger = pool_->take((2 * count_ + 16) * size_);
        std::memcpy(larger.data(), block_.data(), count_ * size_);
        block_ = std::move(larger);
        room_ = block_.capacity() / size_;
    }

    std::shared_ptr<Pool> pool_;
    Pool::Block block_;
    std::size_t size_ = 1;
    std::size_t count_ = 0;
    std::size_t room_ = 0;
};

bool float_of(const Number& number, std::string_view text, double& value) {
    if (number.digits <= most_digits && round_decimal(number.mantissa, number.exponent, value)) {
        if (number.negative) value = -value;
    } else if (csv::read_float64(text, '.', value) != text.size()) {
        return false;
    }
    return std::isnormal(value) || (value == 0 && number.mantissa == 0 && number.digits <= most_digits);
}

} // namespace

/// The state of one call of decode.
class Run {
  public:
    Run(const Decoder& decoder, const std::shared_ptr<Pool>& pool, std::size_t lines, std::size_t bytes)
        : decoder_(decoder),
          seen_(decoder.specs_.size(), 0),
          numbers_(decoder.specs_.size()),
          texts_(decoder.specs_.size()),
          offsets_(decoder.specs_.size()) {
        constexpr std::size_t bytes_of_a_number = 8; // A guess: a few digits, a comma and a blank.
        for (std::size_t k = 0; k < decoder.specs_.size(); ++k) {
            const Spec& spec = decoder.specs_[k];
            const std::size_t values = spec.is_list ? bytes / bytes_of_a_number : lines;
            if (spec.kind == Kind::text) texts_[k] = StringsBuilder(pool, values, bytes / decoder.specs_.size());
            else numbers_[k] = Numbers(pool, spec.kind == Kind::boolean ? 1 : sizeof(std::int64_t), values);
            if (!spec.is_list) continue;
            offsets_[k] = Numbers(pool, sizeof(std::int64_t), lines + 1);
            offsets_[k].add(std::int64_t{0});
        }
    }

    /// Returns whether the line is plain.
    bool line(std::string_view text) {
        ++line_;
        Reader reader(text.data(), text.data() + text.size());
        reader.skip_blanks_and_ends();
        if (!reader.take('{')) return false;
        reader.skip_blanks();
        if (!reader.take('}'))
            for (bool ended = false; !ended; ++member_)
                if (!member(reader) || !reader.next('}', ended)) return false;
        member_ = 0;
        reader.skip_blanks_and_ends();
        return reader.done() && fill_missing();
    }

    std::optional<std::vector<Column>> take() {
        std::vector<Column> columns(decoder_.specs_.size());
        for (std::size_t k = 0; k < columns.size(); ++k) {
            const Spec& spec = decoder_.specs_[k];
            Column& column = columns[k];
            column.values = count_of(k);
            if (spec.kind == Kind::text) {
                column.texts = texts_[k].finish();
                if (first_not_utf8(column.texts.view())) return std::nullopt;
            } else {
                column.numbers = numbers_[k].finish();
            }
            if (spec.is_list) column.offsets = offsets_[k].finish();
        }
        return columns;
    }

  private:
    static constexpr std::size_t unwanted = SIZE_MAX;

    [[nodiscard]] std::size_t count_of(std::size_t k) const noexcept {
        return decoder_.specs_[k].kind == Kind::text ? texts_[k].count() : numbers_[k].count();
    }

    /// A key and its value.
    bool member(Reader& reader) {
        std::string_view key;
        bool escaped = false;
        if (!reader.raw_text(key, escaped) || escaped) return false;
        reader.skip_blanks();
        if (!reader.take(':')) return false;
        reader.skip_blanks();
        const std::size_t k = spec_of(key);
        if (k == unwanted)
            return is_utf8(std::as_bytes(std::span(key))) && reader.skip_value(Decoder::most_depth, room_);
        if (seen_[k] == line_) return false; // twice
        seen_[k] = line_;
        const Spec& spec = decoder_.specs_[k];
        if (reader.front() == 'n') return spec.may_miss && reader.take("null") && put_missing(k);
        if (!spec.is_list) return value(reader, k);
        if (!list(reader, k)) return false;
        offsets_[k].add(static_cast<std::int64_t>(count_of(k)));
        return true;
    }

    /// The spec of a key. Keys mostly come in the order of the line before.
    std::size_t spec_of(std::string_view key) {
        if (member_ < order_.size()) {
            const std::size_t guess = order_[member_];
            if (guess != unwanted && decoder_.specs_[guess].key == key) return guess;
        } else {
            order_.resize(member_ + 1, unwanted);
        }
        const auto found = decoder_.numbers_.find(key);
        if (found == decoder_.numbers_.end()) return unwanted;
        return order_[member_] = found->second;
    }

    bool list(Reader& reader, std::size_t k) {
        if (!reader.take('[')) return false;
        reader.skip_blanks();
        if (reader.take(']')) return true;
        for (bool ended = false; !ended;)
            if (!value(reader, k) || !reader.next(']', ended)) return false;
        return true;
    }

    bool value(Reader& reader, std::size_t k) {
        const Spec& spec = decoder_.specs_[k];
        switch (spec.kind) {
        case Kind::text: return text(reader, k);
        case Kind::boolean: {
            const bool truth = reader.front() == 't';
            if (!reader.take(truth ? "true" : "false")) return false;
            numbers_[k].add(static_cast<std::uint8_t>(truth));
            return true;
        }
        case Kind::float64: return real(reader, k);
        default: return whole(reader, k);
        }
    }

    bool whole(Reader& reader, std::size_t k) {
        const Spec& spec = decoder_.specs_[k];
        Number number;
        const Reader begin = reader;
        if (!reader.number(number) || !number.whole) return false;
        if (number.digits > most_digits && csv::read_uint64(reader.since(begin), number.mantissa) == 0) return false;
        if (number.negative) {
            const std::uint64_t limit = spec.kind == Kind::int64 ? 0 - static_cast<std::uint64_t>(spec.least) : 0;
            if (number.mantissa > limit || spec.kind == Kind::uint64) return false;
            number.mantissa = 0 - number.mantissa;
        } else if (number.mantissa > spec.most) {
            return false;
        }
        numbers_[k].add(number.mantissa);
        return true;
    }

    bool real(Reader& reader, std::size_t k) {
        Number number;
        const Reader begin = reader;
        double value = 0;
        if (!reader.number(number) || !float_of(number, reader.since(begin), value)) return false;
        constexpr double most_exact = 9007199254740992.0; // 2^53
        if (number.whole && std::abs(value) >= most_exact && decoder_.specs_[k].exact) {
            if (number.digits > most_digits || static_cast<std::uint64_t>(std::abs(value)) != number.mantissa)
                return false;
        }
        numbers_[k].add(value);
        return true;
    }

    bool text(Reader& reader, std::size_t k) {
        std::string_view raw;
        bool escaped = false;
        if (!reader.raw_text(raw, escaped)) return false;
        if (escaped) {
            if (!Reader::unescape(raw, room_)) return false;
            raw = room_;
        }
        texts_[k].add(std::as_bytes(std::span(raw)));
        return true;
    }

    bool fill_missing() {
        for (std::size_t k = 0; k < seen_.size(); ++k)
            if (seen_[k] != line_ && !(decoder_.specs_[k].may_miss && put_missing(k))) return false;
        return true;
    }

    bool put_missing(std::size_t k) {
        if (decoder_.specs_[k].is_list) offsets_[k].add(static_cast<std::int64_t>(count_of(k)));
        else numbers_[k].add(std::numeric_limits<double>::quiet_NaN());
        return true;
    }

    const Decoder& decoder_;
    std::size_t line_ = 0;
    std::size_t member_ = 0;         ///< The number of the current member in its line.
    std::vector<std::size_t> order_; ///< The spec that each member had last.
    std::vector<std::size_t> seen_;  ///< The last line that had the key.
    std::vector<Numbers> numbers_;
    std::vector<StringsBuilder> texts_;
    std::vector<Numbers> offsets_;
    std::string room_;
};

Decoder::Decoder(std::vector<Spec> specs) : specs_(std::move(specs)) {
    for (std::size_t k = 0; k < specs_.size(); ++k)
        if (!numbers_.emplace(specs_[k].key, k).second) throw FormatError(Fault::range, 0, specs_.size(), k);
}

std::optional<std::vector<Column>> Decoder::decode(const std::vector<Bytes>& lines,
                                                   const std::shared_ptr<Pool>& pool) const {
    std::size_t bytes = 0;
    for (const Bytes line : lines) bytes += line.size();
    Run run(*this, pool, lines.size(), bytes);
    for (const Bytes line : lines)
        if (!run.line({reinterpret_cast<Text>(line.data()), line.size()})) return std::nullopt;
    return run.take();
}

} // namespace headrace::json
