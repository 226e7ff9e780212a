#include "core/csv/decode.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <mutex>

#include "core/base/thread_team.hpp"
#include "core/text/utf8.hpp"

namespace headrace::csv {
namespace {

std::string_view text_of(Bytes bytes) noexcept { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// Strips blanks from both ends.
std::string_view trimmed(std::string_view text) noexcept {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

struct Truth {
    std::string_view word;
    bool value;
};
constexpr std::array<Truth, 6> truths{
    {{"True", true}, {"False", false}, {"true", true}, {"false", false}, {"TRUE", true}, {"FALSE", false}}};

/// -1: not a boolean.
int truth_of(std::string_view text) noexcept {
    constexpr std::size_t longest = 5;
    if (text.size() > longest) return -1;
    for (const Truth& truth : truths)
        if (truth.word == text) return truth.value ? 1 : 0;
    return -1;
}

bool has_truth(const Words& words) noexcept {
    return std::ranges::any_of(truths, [&](const Truth& truth) { return words.has(truth.word); });
}

/// The first `wanted` from `at` on, or the end. Fields are short: memchr is called only after 32 bytes.
const char* find_byte(const char* at, const char* end, char wanted) noexcept {
    static_assert(std::endian::native == std::endian::little, "big-endian hosts need a byte swap here");
    constexpr std::uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
    const std::uint64_t pattern = ones * static_cast<unsigned char>(wanted);
    for (int words = 0; words < 4; ++words, at += sizeof(std::uint64_t)) {
        if (end - at < std::ptrdiff_t{sizeof(std::uint64_t)}) {
            while (at != end && *at != wanted) ++at;
            return at;
        }
        std::uint64_t word = 0;
        std::memcpy(&word, at, sizeof word);
        word ^= pattern;
        const std::uint64_t zeros = (word - ones) & ~word & tops; // exact up to the first zero byte
        if (zeros != 0) return at + std::countr_zero(zeros) / 8;
    }
    const void* const found = at == end ? nullptr : std::memchr(at, wanted, static_cast<std::size_t>(end - at));
    return found == nullptr ? end : static_cast<const char*>(found);
}

std::size_t find_from(std::string_view row, std::size_t at, char wanted) noexcept {
    return static_cast<std::size_t>(find_byte(row.data() + at, row.data() + row.size(), wanted) - row.data());
}

/// Reads a truth value at the start of `text`. Returns how many bytes it takes; 0 if there is none.
std::size_t truth_at(std::string_view text, std::uint64_t& value) noexcept {
    for (const Truth& truth : truths) {
        if (!text.starts_with(truth.word)) continue;
        value = truth.value ? 1 : 0;
        return truth.word.size();
    }
    return 0;
}

/// A field of a row, up to its delimiter.
struct Field {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool quoted = false;
    bool doubled = false; ///< Quoted, with doubled quotes inside.
};

Field field_at(std::string_view row, std::size_t at, const Dialect& dialect) {
    Field field{at, row.size(), false, false};
    if (!dialect.quote || at == row.size() || row[at] != *dialect.quote) {
        field.end = find_from(row, at, dialect.delimiter);
        return field;
    }
    field.quoted = true;
    std::size_t close = at + 1;
    while (true) {
        close = find_from(row, close, *dialect.quote);
        if (close == row.size()) throw FormatError(Fault::truncated, at, 0, at);
        if (close + 1 == row.size() || row[close + 1] != *dialect.quote) break;
        field.doubled = true;
        close += 2;
    }
    field.end = close + 1;
    if (field.end != row.size() && row[field.end] != dialect.delimiter)
        throw FormatError(Fault::structure, field.end, 0, field.end);
    return field;
}

/// The content of a field. Doubled quotes stay doubled.
std::string_view inner_of(std::string_view row, const Field& field) noexcept {
    return field.quoted ? row.substr(field.begin + 1, field.end - field.begin - 2)
                        : row.substr(field.begin, field.end - field.begin);
}

std::size_t width_from(std::string_view row, std::size_t at, const Dialect& dialect) {
    if (!dialect.quote || row.find(*dialect.quote, at) == std::string_view::npos)
        return 1 + static_cast<std::size_t>(
                       std::count(row.begin() + static_cast<std::ptrdiff_t>(at), row.end(), dialect.delimiter));
    std::size_t count = 0;
    while (true) {
        const Field field = field_at(row, at, dialect);
        ++count;
        if (field.end == row.size()) return count;
        at = field.end + 1;
    }
}

/// What one value looks like.
enum class Look : std::uint8_t { empty, missing, whole, positive, huge, real, boolean, text, skipped };
struct Seen {
    Look look = Look::skipped;
    bool padded = false;
    bool wide = false;
    bool negative = false;
};

Seen seen_number(const NumberFacts& number, char front) noexcept {
    const auto offset = static_cast<int>(number.kind) - static_cast<int>(NumberKind::whole);
    return {static_cast<Look>(static_cast<int>(Look::whole) + offset), number.padded, number.wide,
            number.kind != NumberKind::real && front == '-'};
}

Seen seen_value(std::string_view value, const Layout& layout) {
    if (value.empty()) return {Look::empty};
    if (layout.missing.has(value)) return {Look::missing};
    const NumberFacts number = facts_of(value, layout.dialect.decimal);
    if (number.kind != NumberKind::none) return seen_number(number, value.front());
    return {truth_of(value) >= 0 ? Look::boolean : Look::text};
}

void count(const Seen& seen, ColumnFacts& facts) noexcept {
    facts.padded += seen.padded;
    facts.wide += seen.wide;
    facts.negative += seen.negative;
    switch (seen.look) {
    case Look::empty: return void(++facts.empty);
    case Look::missing: return void(++facts.missing);
    case Look::whole: return void(++facts.whole);
    case Look::positive: return void(++facts.positive);
    case Look::huge: return void(++facts.huge);
    case Look::real: return void(++facts.real);
    case Look::boolean: return void(++facts.boolean);
    case Look::text: return void(++facts.text);
    case Look::skipped: return;
    }
}

/// Examines rows one after another.
class Examination {
  public:
    Examination(const Layout& layout, bool until_text)
        : layout_(layout),
          until_text_(until_text),
          numbers_may_miss_(layout.missing.has_number(layout.dialect.decimal)),
          truths_may_miss_(has_truth(layout.missing)),
          facts_(layout.width),
          row_(layout.width) {}

    /// Counts the values of a row; none if it is broken or of another width.
    void row(std::string_view row) {
        try {
            if (!look(row)) return;
        } catch (const FormatError&) {
            return; // Decoding reports it, with its position.
        }
        for (std::size_t k = 0; k < row_.size(); ++k) count(row_[k], facts_[k]);
    }

    [[nodiscard]] std::vector<ColumnFacts>& facts() noexcept { return facts_; }

  private:
    /// Returns whether the row is as wide as wanted.
    bool look(std::string_view row) {
        std::size_t at = 0;
        for (std::size_t k = 0; k < row_.size(); ++k) {
            if (k != 0 && at++ == row.size()) return false;
            at = value(row, at, k);
        }
        return at == row.size();
    }

    /// Returns the end of the value.
    std::size_t value(std::string_view row, std::size_t at, std::size_t k) {
        const Dialect& dialect = layout_.dialect;
        const bool skipped = until_text_ && (facts_[k].text | facts_[k].padded) != 0;
        if (!skipped && !numbers_may_miss_) { // Fast path: a bare number between delimiters.
            std::size_t size = 0;
            const NumberFacts number = plain_facts_of(row.substr(at), dialect.decimal, size);
            const std::size_t end = at + size;
            if (size != 0 && (end == row.size() || row[end] == dialect.delimiter)) {
                row_[k] = seen_number(number, row[at]);
                return end;
            }
        }
        if (std::uint64_t truth = 0; !skipped && !truths_may_miss_) {
            const std::size_t end = at + truth_at(row.substr(at), truth);
            if (end != at && (end == row.size() || row[end] == dialect.delimiter)) {
                row_[k] = {Look::boolean};
                return end;
            }
        }
        const Field field = field_at(row, at, dialect);
        row_[k] = skipped         ? Seen{}
                  : field.doubled ? Seen{Look::text} // Numbers contain no quotes.
                                  : seen_value(trimmed(inner_of(row, field)), layout_);
        return field.end;
    }

    const Layout& layout_;
    bool until_text_;
    bool numbers_may_miss_;
    bool truths_may_miss_;
    std::vector<ColumnFacts> facts_;
    std::vector<Seen> row_;
};

void add(const ColumnFacts& part, ColumnFacts& sum) noexcept {
    for (const auto field : {&ColumnFacts::empty, &ColumnFacts::missing, &ColumnFacts::whole, &ColumnFacts::positive,
                             &ColumnFacts::huge, &ColumnFacts::real, &ColumnFacts::boolean, &ColumnFacts::text,
                             &ColumnFacts::padded, &ColumnFacts::wide, &ColumnFacts::negative})
        sum.*field += part.*field;
}

std::size_t size_of(Kind kind) noexcept {
    switch (kind) {
    case Kind::text: return 0;
    case Kind::boolean: return 1;
    case Kind::float32: return sizeof(float);
    default: return sizeof(std::uint64_t);
    }
}

/// Parses a number of `kind` at the start of `text` into its bits. Returns how many bytes it takes, 0 if there is none.
std::size_t read_number(std::string_view text, Kind kind, char decimal, std::uint64_t& bits) {
    std::size_t size = 0;
    if (kind == Kind::float64) {
        double value = 0;
        size = read_float64(text, decimal, value);
        bits = std::bit_cast<std::uint64_t>(value);
    } else if (kind == Kind::int64) {
        std::int64_t value = 0;
        size = read_int64(text, value);
        bits = static_cast<std::uint64_t>(value);
    } else if (kind == Kind::float32) {
        float value = 0;
        size = read_float32(text, decimal, value);
        bits = std::bit_cast<std::uint32_t>(value);
    } else if (kind == Kind::uint64) {
        size = read_uint64(text, bits);
    }
    return size;
}

/// Integers written as floats (3.0), common in columns with missing values.
bool whole_of_float(std::string_view text, Kind kind, char decimal, std::uint64_t& bits) {
    double value = 0;
    constexpr double exact = 9007199254740992.0; // 2^53
    if (read_float64(text, decimal, value) != text.size() || text.empty()) return false;
    if (!(value >= -exact && value <= exact) || (kind == Kind::uint64 && value < 0)) return false;
    const auto whole = static_cast<std::int64_t>(value);
    bits = static_cast<std::uint64_t>(whole);
    return static_cast<double>(whole) == value;
}

/// Whether a number read as float64 may be an integer that was rounded: a cheap test, as few are large enough.
bool may_be_rounded(const Spec& spec, std::uint64_t bits) noexcept {
    constexpr std::uint64_t exponent_of_2_to_53 = 1023 + 53;
    return spec.exact && (bits << 1 >> 53) >= exponent_of_2_to_53;
}

/// Whether it was rounded.
bool is_rounded(const Spec& spec, std::string_view text, char decimal, std::uint64_t bits) noexcept {
    return may_be_rounded(spec, bits) && facts_of(text, decimal).wide;
}

void store(std::byte* to, Kind kind, std::uint64_t bits) noexcept {
    if (kind == Kind::boolean) *to = static_cast<std::byte>(bits);
    else if (kind == Kind::float32) store_le<std::uint32_t>(to, static_cast<std::uint32_t>(bits));
    else store_le<std::uint64_t>(to, bits);
}

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

std::vector<ColumnFacts> examine(const Spans& spans, const Layout& layout, bool until_text, unsigned threads) {
    constexpr std::size_t together = 512; // rows that one thread takes: some tenths of a millisecond
    std::vector<ColumnFacts> sums(layout.width);
    std::mutex adding;
    ThreadTeam::shared().run(spans.payloads.size(), together, threads, [&](std::size_t begin, std::size_t end) {
        Examination examination(layout, until_text);
        for (std::size_t i = begin; i < end; ++i) examination.row(text_of(spans.payloads[i]));
        const std::scoped_lock lock(adding);
        for (std::size_t k = 0; k < sums.size(); ++k) add(examination.facts()[k], sums[k]);
    });
    return sums;
}

Decoder::Decoder(Layout layout, std::vector<Spec> specs)
    : layout_(std::move(layout)),
      specs_(std::move(specs)),
      numbers_may_miss_(layout_.missing.has_number(layout_.dialect.decimal)),
      truths_may_miss_(
          std::ranges::any_of(truths, [&](const Truth& truth) { return layout_.missing.has(truth.word); })) {
    for (std::size_t k = 0; k < specs_.size(); ++k) {
        const std::size_t field = specs_[k].field;
        if (field >= layout_.width) throw FormatError(Fault::range, 0, layout_.width, field);
        if (field >= plan_.size()) plan_.resize(field + 1, -1);
        if (plan_[field] >= 0) throw FormatError(Fault::range, 0, layout_.width, field);
        plan_[field] = static_cast<int>(k);
    }
}

/// The state of one call of decode.
class Run {
  public:
    Run(const Decoder& decoder, const std::shared_ptr<Pool>& pool, std::size_t rows, std::size_t bytes)
        : decoder_(decoder),
          pool_(pool),
          places_(decoder.specs_.size()),
          texts_(decoder.specs_.size()) {
        for (std::size_t k = 0; k < decoder.specs_.size(); ++k) {
            const Spec& spec = decoder.specs_[k];
            Column& column = out_.columns.emplace_back();
            if (spec.kind == Kind::text) {
                texts_[k] = StringsBuilder(pool, rows, bytes / std::max<std::size_t>(decoder.layout_.width, 1));
            } else {
                column.numbers = pool->take(rows * size_of(spec.kind));
                places_[k] = column.numbers.data();
            }
        }
    }

    void row(std::string_view row) {
        const Layout& layout = decoder_.layout_;
        std::size_t at = 0, width = 0;
        for (const int k : decoder_.plan_) {
            if (width != 0) {
                if (at == row.size()) throw FormatError(Fault::wrong_count, 0, layout.width, width);
                ++at; // the delimiter
            }
            at = k < 0 ? field_at(row, at, layout.dialect).end : value(row, at, static_cast<std::size_t>(k));
            ++width;
        }
        if (width == 0) width = width_from(row, 0, layout.dialect);
        else if (at != row.size()) width += width_from(row, at + 1, layout.dialect);
        if (width != layout.width) throw FormatError(Fault::wrong_count, 0, layout.width, width);
    }

    Decoded take() {
        for (std::size_t k = 0; k < out_.columns.size(); ++k)
            if (decoder_.specs_[k].kind == Kind::text) finish(decoder_.specs_[k], texts_[k], out_.columns[k]);
        return std::move(out_);
    }

  private:
    /// Decodes the field at `at` and returns its end.
    std::size_t value(std::string_view row, std::size_t at, std::size_t k) {
        const Spec& spec = decoder_.specs_[k];
        if (spec.kind == Kind::text) return text(row, at, k);
        const char delimiter = decoder_.layout_.dialect.delimiter;
        std::uint64_t bits = 0;
        std::size_t end = at; // Fast path: a bare number or truth value between delimiters.
        if (spec.kind == Kind::boolean && !decoder_.truths_may_miss_) end += truth_at(row.substr(at), bits);
        else if (spec.kind < Kind::boolean && !decoder_.numbers_may_miss_)
            end += read_number(row.substr(at), spec.kind, decoder_.layout_.dialect.decimal, bits);
        if (end != at && (end == row.size() || row[end] == delimiter) && !may_be_rounded(spec, bits)) {
            put(k, bits);
            return end;
        }
        const Field field = field_at(row, at, decoder_.layout_.dialect);
        other_number(inner_of(row, field), field, k);
        return field.end;
    }

    std::size_t text(std::string_view row, std::size_t at, std::size_t k) {
        const Spec& spec = decoder_.specs_[k];
        const Field field = field_at(row, at, decoder_.layout_.dialect);
        const std::string_view inner = inner_of(row, field);
        std::string_view text = inner;
        if (spec.has_default && !field.quoted && decoder_.layout_.missing.has(trimmed(inner))) text = spec.words;
        else if (field.doubled) text = value_of(inner);
        texts_[k].add(std::as_bytes(std::span(text)));
        return field.end;
    }

    /// The content of a field, doubled quotes undoubled. Valid until the next call.
    std::string_view value_of(std::string_view inner) {
        const char quote = *decoder_.layout_.dialect.quote;
        room_.clear();
        for (std::size_t at = 0; at < inner.size();) {
            const std::size_t next = std::min(find_from(inner, at, quote) + 1, inner.size());
            room_.append(inner.substr(at, next - at));
            at = next + 1; // past the second one of the pair
        }
        return room_;
    }

    /// Checks the encoding of a column of texts.
    void finish(const Spec& spec, StringsBuilder& texts, Column& column) {
        column.texts = texts.finish();
        if (spec.is_bytes) return;
        const StringsView view = column.texts.view();
        if (spec.charset == nullptr) column.no_text = first_not_utf8(view);
        else if (!is_ascii(view.all())) convert(*spec.charset, column);
    }

    void convert(const Charset& charset, Column& column) {
        const StringsView view = column.texts.view();
        StringsBuilder converted(pool_, view.count(), 2 * column.texts.size);
        for (std::size_t i = 0; i < view.count(); ++i) {
            room_.clear();
            for (const std::byte byte : view.at(i)) {
                const auto code = std::to_integer<unsigned char>(byte);
                if (code < charset.size()) {
                    room_.push_back(static_cast<char>(code));
                    continue;
                }
                const std::string& character = charset[code - charset.size()];
                if (character.empty() && !column.no_text) column.no_text = i;
                room_ += character;
            }
            converted.add(std::as_bytes(std::span(room_)));
        }
        column.texts = converted.finish();
    }

    /// Numbers with surrounding blanks or quotes, booleans, missing values, and text that is no number.
    void other_number(std::string_view inner, const Field& field, std::size_t k) {
        const Spec& spec = decoder_.specs_[k];
        const char decimal = decoder_.layout_.dialect.decimal;
        const std::string_view text = trimmed(inner);
        std::uint64_t bits = 0;
        if (decoder_.layout_.missing.has(text)) return put(k, missing(spec, field, k));
        const std::size_t size = read_number(text, spec.kind, decimal, bits);
        if (size == 0 || size != text.size() || is_rounded(spec, text, decimal, bits)) {
            if (spec.kind == Kind::boolean && truth_of(text) >= 0) {
                bits = static_cast<std::uint64_t>(truth_of(text));
            } else if (spec.kind == Kind::boolean && (text == "0" || text == "1")) {
                bits = text == "1";
            } else if (spec.kind > Kind::uint64 || !whole_of_float(text, spec.kind, decimal, bits)) {
                fail(Fault::wrong_kind, spec.kind, field, k);
            }
        }
        put(k, bits);
    }

    [[nodiscard]] static std::uint64_t missing(const Spec& spec, const Field& field, std::size_t k) {
        if (spec.has_default) return spec.number;
        if (spec.kind == Kind::float64) return std::bit_cast<std::uint64_t>(std::numeric_limits<double>::quiet_NaN());
        if (spec.kind == Kind::float32) return std::bit_cast<std::uint32_t>(std::numeric_limits<float>::quiet_NaN());
        fail(Fault::missing, spec.kind, field, k);
    }

    [[noreturn]] static void fail(Fault fault, Kind kind, const Field& field, std::size_t k) {
        FormatError error(fault, field.begin, static_cast<std::uint64_t>(kind), field.begin);
        error.feature = static_cast<std::int64_t>(k);
        throw error;
    }

    /// Appends a number to its column.
    void put(std::size_t k, std::uint64_t bits) noexcept {
        const Kind kind = decoder_.specs_[k].kind;
        store(places_[k], kind, bits);
        places_[k] += size_of(kind);
    }

    const Decoder& decoder_;
    const std::shared_ptr<Pool>& pool_;
    std::vector<std::byte*> places_;    ///< Where the next number of each column goes.
    std::vector<StringsBuilder> texts_; ///< Those of columns of numbers are empty.
    std::string room_;
    Decoded out_;
};

Decoded Decoder::decode(const Spans& spans, const std::shared_ptr<Pool>& pool) const {
    std::size_t bytes = 0;
    for (const Bytes row : spans.payloads) bytes += row.size();
    Run run(*this, pool, spans.payloads.size(), bytes);
    for (std::size_t i = 0; i < spans.payloads.size(); ++i) {
        const std::string_view row = text_of(spans.payloads[i]);
        try {
            try {
                run.row(row);
            } catch (const FormatError& error) { // In a row of the wrong width, values are in the wrong columns.
                const std::size_t width = error.feature < 0 ? layout_.width : width_from(row, 0, layout_.dialect);
                if (width != layout_.width) throw FormatError(Fault::wrong_count, 0, layout_.width, width);
                throw;
            }
        } catch (FormatError& error) {
            error.record = static_cast<std::int64_t>(i);
            throw;
        }
    }
    return run.take();
}

} // namespace headrace::csv
