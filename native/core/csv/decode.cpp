#include "core/csv/decode.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace headrace::csv {
namespace {

std::string_view text_of(Bytes bytes) noexcept { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// Strips blanks from both ends.
std::string_view trimmed(std::string_view text) noexcept {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

/// -1: not a boolean.
int truth_of(std::string_view text) noexcept {
    if (text == "true" || text == "True" || text == "TRUE") return 1;
    if (text == "false" || text == "False" || text == "FALSE") return 0;
    return -1;
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
        field.end = std::min(row.find(dialect.delimiter, at), row.size());
        return field;
    }
    field.quoted = true;
    std::size_t close = at + 1;
    while (true) {
        close = row.find(*dialect.quote, close);
        if (close == std::string_view::npos) throw FormatError(Fault::truncated, at, 0, at);
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

void examine_value(std::string_view value, const Layout& layout, ColumnFacts& facts) {
    if (value.empty()) return void(++facts.empty);
    if (layout.missing.has(value)) return void(++facts.missing);
    const NumberFacts number = facts_of(value, layout.dialect.decimal);
    facts.padded += number.padded;
    facts.wide += number.wide;
    facts.negative += number.kind != NumberKind::none && number.kind != NumberKind::real && value.front() == '-';
    switch (number.kind) {
    case NumberKind::whole: return void(++facts.whole);
    case NumberKind::positive: return void(++facts.positive);
    case NumberKind::huge: return void(++facts.huge);
    case NumberKind::real: return void(++facts.real);
    case NumberKind::none: break;
    }
    ++(truth_of(value) >= 0 ? facts.boolean : facts.text);
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

std::vector<ColumnFacts> examine(const Spans& spans, const Layout& layout) {
    std::vector<ColumnFacts> facts(layout.width);
    std::vector<std::string_view> values(layout.width);
    for (const Bytes payload : spans.payloads) {
        const std::string_view row = text_of(payload);
        try {
            if (width_from(row, 0, layout.dialect) != layout.width) continue;
        } catch (const FormatError&) {
            continue; // Decoding reports it, with its position.
        }
        std::size_t at = 0;
        for (std::size_t k = 0; k < layout.width; ++k) {
            if (at > row.size())
                throw FormatError(Fault::changed, 0, layout.width, k); // The first pass counted more fields.
            const Field field = field_at(row, at, layout.dialect);
            at = field.end + 1;
            if (field.doubled) ++facts[k].text; // Numbers contain no quotes.
            else examine_value(trimmed(inner_of(row, field)), layout, facts[k]);
        }
    }
    return facts;
}

Decoder::Decoder(Layout layout, std::vector<Spec> specs)
    : layout_(std::move(layout)),
      specs_(std::move(specs)),
      numbers_may_miss_(layout_.missing.has_number(layout_.dialect.decimal)) {
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
    Run(const Decoder& decoder, const std::shared_ptr<Pool>& pool, std::size_t rows) : decoder_(decoder) {
        for (const Spec& spec : decoder.specs_) {
            Column column;
            if (spec.kind == Kind::text) column.texts.resize(rows);
            else column.numbers = pool->take(rows * size_of(spec.kind));
            out_.columns.push_back(std::move(column));
        }
    }

    void row(std::string_view row, std::size_t number) {
        const Layout& layout = decoder_.layout_;
        std::size_t at = 0, width = 0;
        for (const int k : decoder_.plan_) {
            if (width != 0) {
                if (at == row.size()) throw FormatError(Fault::wrong_count, 0, layout.width, width);
                ++at; // the delimiter
            }
            at = k < 0 ? field_at(row, at, layout.dialect).end : value(row, at, static_cast<std::size_t>(k), number);
            ++width;
        }
        if (width == 0) width = width_from(row, 0, layout.dialect);
        else if (at != row.size()) width += width_from(row, at + 1, layout.dialect);
        if (width != layout.width) throw FormatError(Fault::wrong_count, 0, layout.width, width);
    }

    Decoded take() { return std::move(out_); }

  private:
    /// Decodes the field at `at` and returns its end.
    std::size_t value(std::string_view row, std::size_t at, std::size_t k, std::size_t number) {
        const Spec& spec = decoder_.specs_[k];
        const Dialect& dialect = decoder_.layout_.dialect;
        if (spec.kind < Kind::boolean && !decoder_.numbers_may_miss_) { // Fast path: a bare number between delimiters.
            std::uint64_t bits = 0;
            const std::size_t end = at + read_number(row.substr(at), spec.kind, dialect.decimal, bits);
            if (end != at && (end == row.size() || row[end] == dialect.delimiter) && !may_be_rounded(spec, bits)) {
                store(place(k, number), spec.kind, bits);
                return end;
            }
        }
        const Field field = field_at(row, at, dialect);
        const std::string_view inner = inner_of(row, field);
        if (spec.kind == Kind::text) text(inner, field, k, number);
        else other_number(inner, field, k, number);
        return field.end;
    }

    void text(std::string_view inner, const Field& field, std::size_t k, std::size_t number) {
        const Spec& spec = decoder_.specs_[k];
        std::string_view& to = out_.columns[k].texts[number];
        if (spec.has_default && !field.quoted && decoder_.layout_.missing.has(trimmed(inner))) {
            to = spec.words;
        } else if (!field.doubled) {
            to = inner;
        } else {
            const char quote = *decoder_.layout_.dialect.quote;
            std::string& single = out_.unquoted.emplace_back();
            single.reserve(inner.size());
            for (std::size_t i = 0; i < inner.size(); ++i) {
                single.push_back(inner[i]);
                if (inner[i] == quote) ++i;
            }
            to = single;
        }
    }

    /// Numbers with surrounding blanks or quotes, booleans, missing values, and text that is no number.
    void other_number(std::string_view inner, const Field& field, std::size_t k, std::size_t number) {
        const Spec& spec = decoder_.specs_[k];
        const char decimal = decoder_.layout_.dialect.decimal;
        const std::string_view text = trimmed(inner);
        std::uint64_t bits = 0;
        if (decoder_.layout_.missing.has(text)) return store(place(k, number), spec.kind, missing(spec, field, k));
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
        store(place(k, number), spec.kind, bits);
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

    std::byte* place(std::size_t k, std::size_t number) noexcept {
        return out_.columns[k].numbers.data() + number * size_of(decoder_.specs_[k].kind);
    }

    const Decoder& decoder_;
    Decoded out_;
};

Decoded Decoder::decode(const Spans& spans, const std::shared_ptr<Pool>& pool) const {
    Run run(*this, pool, spans.payloads.size());
    for (std::size_t i = 0; i < spans.payloads.size(); ++i) {
        const std::string_view row = text_of(spans.payloads[i]);
        try {
            try {
                run.row(row, i);
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
