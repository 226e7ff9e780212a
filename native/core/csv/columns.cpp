#include "core/csv/columns.hpp"

#include <algorithm>
#include <bit>

#include "core/csv/plain_number.hpp"
#include "core/text/utf8.hpp"

namespace headrace::csv {
namespace {

constexpr std::uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;

/// Copies the content of a quoted field, and of each doubled quote one. Reads and writes up to seven bytes more.
/// Returns the end.
std::byte* copy_undoubled(std::byte* to, const char* from, const char* end, char quote) noexcept {
    const std::uint64_t pattern = ones * static_cast<unsigned char>(quote);
    while (from < end) {
        const auto left = static_cast<std::size_t>(end - from);
        std::uint64_t word = 0;
        std::memcpy(&word, from, sizeof word);
        std::memcpy(to, &word, sizeof word);
        word ^= pattern;
        std::uint64_t quotes = (word - ones) & ~word & tops; // exact up to the first
        if (left < 8) quotes &= (std::uint64_t{1} << 8 * left) - 1;
        const std::size_t copied =
            quotes == 0 ? std::min<std::size_t>(left, 8) : static_cast<std::size_t>(std::countr_zero(quotes)) / 8 + 1;
        to += copied;
        from += copied + (quotes != 0);
    }
    return to;
}

/// The same for long content.
std::byte* copy_long_undoubled(std::byte* to, const char* from, const char* end, char quote) noexcept {
    while (from < end) {
        const auto left = static_cast<std::size_t>(end - from);
        const auto* const found = static_cast<const char*>(std::memchr(from, quote, left));
        const std::size_t copied = found == nullptr ? left : static_cast<std::size_t>(found - from) + 1;
        std::memcpy(to, from, copied);
        to += copied;
        from += copied + (found != nullptr);
    }
    return to;
}

void store(std::byte* to, Kind kind, std::uint64_t bits) noexcept {
    if (kind == Kind::boolean) *to = static_cast<std::byte>(bits);
    else if (kind == Kind::float32) store_le<std::uint32_t>(to, static_cast<std::uint32_t>(bits));
    else store_le<std::uint64_t>(to, bits);
}

} // namespace

Columns::Columns(const Layout& layout, const std::vector<Spec>& specs, std::shared_ptr<Pool> pool, std::size_t rows,
                 std::size_t bytes, std::size_t text_bytes)
    : layout_(layout),
      specs_(specs),
      pool_(std::move(pool)),
      numbers_may_miss_(layout.missing.has_number(layout.dialect.decimal)),
      truths_may_miss_(layout.missing.has_truth()),
      bytes_(bytes),
      places_(specs.size()),
      texts_(specs.size()) {
    for (std::size_t k = 0; k < specs.size(); ++k) {
        Column& column = out_.columns.emplace_back();
        if (specs[k].kind == Kind::text) {
            texts_[k] = StringsBuilder(pool_, rows, text_bytes);
        } else {
            column.numbers = pool_->take(rows * size_of(specs[k].kind));
            places_[k] = column.numbers.data();
        }
    }
}

void Columns::put(std::size_t k, std::uint64_t bits) noexcept {
    const Kind kind = specs_[k].kind;
    store(places_[k], kind, bits);
    places_[k] += size_of(kind);
}

void Columns::add(std::size_t k, std::string_view row, const Field& field) {
    const Spec& spec = specs_[k];
    const std::string_view inner = inner_of(row, field);
    if (spec.kind != Kind::text) return put(k, number_in(inner, spec, layout_, field.begin, k));
    std::string_view text = inner;
    if (spec.has_default && !field.quoted && layout_.missing.has(trimmed(inner))) {
        text = spec.words;
    } else if (field.doubled) {
        room_.clear();
        append_undoubled(inner, *layout_.dialect.quote, room_);
        text = room_;
    }
    texts_[k].add(std::as_bytes(std::span(text)));
}

std::uint64_t Columns::slow_number(std::size_t k, std::string_view field) const {
    return number_in(inner_of(field, field_at(field, 0, layout_.dialect)), specs_[k], layout_, 0, k);
}

template <typename Read> void Columns::add_numbers(std::size_t k, const FieldGrid& grid, Read&& read) {
    const GridColumn column = grid.column(specs_[k].field);
    const Kind kind = specs_[k].kind;
    const std::size_t item = size_of(kind), rows = grid.rows();
    std::byte* to = places_[k];
    for (std::size_t i = 0; i < rows; ++i, to += item) {
        const char* const at = column.begin(i);
        const std::size_t size = column.size(i);
        std::uint64_t bits = 0;
        if (column.stop - at < plain_readable || !read(at, size, bits)) bits = slow_number(k, {at, size});
        store(to, kind, bits);
    }
    places_[k] = to;
}

void Columns::add_texts(std::size_t k, const FieldGrid& grid) {
    const GridColumn column = grid.column(specs_[k].field);
    const std::size_t rows = grid.rows();
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < rows; ++i) bytes += column.size(i);
    // Before the first rows, the memory for all of them is taken, as if they were alike.
    const std::size_t share = bytes * (bytes_ / std::max<std::size_t>(grid.bytes(), 1) + 1);
    const StringsBuilder::Room room = texts_[k].reserve(rows, bytes, std::min(share + share / 16, bytes_));
    const bool has_quotes = layout_.dialect.quote.has_value();
    const char quote = layout_.dialect.quote.value_or('\0');
    constexpr std::size_t longest_short = 48;
    std::byte* to = room.data;
    for (std::size_t i = 0; i < rows; ++i) {
        const char* const at = column.begin(i);
        const std::size_t size = column.size(i);
        const std::ptrdiff_t left = column.stop - at;
        if (has_quotes && size > 1 && *at == quote) {
            const bool is_short = size <= longest_short && left >= plain_readable + std::ptrdiff_t{longest_short};
            to = (is_short ? copy_undoubled : copy_long_undoubled)(to, at + 1, at + size - 1, quote);
        } else if (size <= StringsBuilder::long_room && left >= plain_readable) {
            std::memcpy(to, at, StringsBuilder::long_room);
            to += size;
        } else {
            std::memcpy(to, at, size);
            to += size;
        }
        room.offsets[i] = static_cast<std::int64_t>(room.size + static_cast<std::size_t>(to - room.data));
    }
    texts_[k].commit(rows, static_cast<std::size_t>(to - room.data));
}

void Columns::add(const FieldGrid& grid) {
    const char decimal = layout_.dialect.decimal;
    const auto slowly = [](const char*, std::size_t, std::uint64_t&) { return false; };
    for (std::size_t k = 0; k < specs_.size(); ++k) {
        const Spec& spec = specs_[k];
        if (spec.kind == Kind::text && !spec.has_default) {
            add_texts(k, grid);
        } else if (spec.kind == Kind::text) {
            const GridColumn column = grid.column(spec.field);
            for (std::size_t i = 0; i < grid.rows(); ++i) {
                const std::string_view field(column.begin(i), column.size(i));
                add(k, field, field_at(field, 0, layout_.dialect));
            }
        } else if (spec.kind == Kind::boolean ? truths_may_miss_ : numbers_may_miss_) {
            add_numbers(k, grid, slowly);
        } else if (spec.kind == Kind::int64) {
            add_numbers(k, grid, [](const char* at, std::size_t size, std::uint64_t& bits) {
                return read_plain_whole<Kind::int64>(at, size, bits);
            });
        } else if (spec.kind == Kind::uint64) {
            add_numbers(k, grid, [](const char* at, std::size_t size, std::uint64_t& bits) {
                return read_plain_whole<Kind::uint64>(at, size, bits);
            });
        } else if (spec.kind == Kind::boolean) {
            add_numbers(k, grid, [](const char* at, std::size_t size, std::uint64_t& bits) {
                return read_plain_truth(at, size, bits);
            });
        } else if (spec.kind == Kind::float64) {
            add_numbers(k, grid, [&](const char* at, std::size_t size, std::uint64_t& bits) {
                PlainDecimal number;
                double value = 0;
                if (!number.read(at, size, decimal) || !number.round(value)) return false;
                bits = std::bit_cast<std::uint64_t>(value);
                return true;
            });
        } else {
            add_numbers(k, grid, [&](const char* at, std::size_t size, std::uint64_t& bits) {
                PlainDecimal number;
                float value = 0;
                if (!number.read(at, size, decimal) || !number.round(value)) return false;
                bits = std::bit_cast<std::uint32_t>(value);
                return true;
            });
        }
    }
}

/// Checks the encoding of a column of texts.
void Columns::finish(const Spec& spec, StringsBuilder& texts, Column& column) {
    column.texts = texts.finish();
    if (spec.is_bytes) return;
    const StringsView view = column.texts.view();
    if (spec.charset == nullptr) column.no_text = first_not_utf8(view);
    else if (!is_ascii(view.all())) convert(*spec.charset, column);
}

void Columns::convert(const Charset& charset, Column& column) {
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

Decoded Columns::take() {
    for (std::size_t k = 0; k < out_.columns.size(); ++k)
        if (specs_[k].kind == Kind::text) finish(specs_[k], texts_[k], out_.columns[k]);
    return std::move(out_);
}

} // namespace headrace::csv
