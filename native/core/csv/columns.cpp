#include "core/csv/columns.hpp"

#include <algorithm>

#include "core/csv/cells/texts.hpp"
#include "core/text/utf8.hpp"

namespace headrace::csv {
namespace {

void store(std::byte* to, Kind kind, std::uint64_t bits) noexcept {
    if (kind == Kind::boolean) *to = static_cast<std::byte>(bits);
    else if (kind == Kind::float32) store_le<std::uint32_t>(to, static_cast<std::uint32_t>(bits));
    else store_le<std::uint64_t>(to, bits);
}

/// What an empty cell becomes, where that is a number.
std::optional<std::uint64_t> bits_of_empty(const Spec& spec, const Layout& layout) noexcept {
    if (spec.kind == Kind::text || !layout.missing.has("")) return std::nullopt;
    return missing_number(spec);
}

} // namespace

Columns::Columns(const Layout& layout, const std::vector<Spec>& specs, std::shared_ptr<Pool> pool, std::size_t rows,
                 std::size_t bytes, std::size_t text_bytes, const Cpu& cpu)
    : layout_(layout),
      specs_(specs),
      cpu_(cpu),
      bare_(layout),
      pool_(std::move(pool)),
      numbers_may_miss_(layout.missing.has_number(layout.dialect.decimal)),
      truths_may_miss_(layout.missing.has_truth()),
      bytes_(bytes),
      places_(specs.size()),
      texts_(specs.size()) {
    around_.reserve(specs.size()); // They stay where they are.
    for (std::size_t k = 0; k < specs.size(); ++k) {
        Column& column = out_.columns.emplace_back();
        const std::optional<std::uint64_t> empty = bits_of_empty(specs[k], layout);
        Around& around = around_.emplace_back(empty ? &layout.missing : nullptr);
        forms_.push_back({specs[k].kind, layout.dialect.decimal, empty, numbers_may_miss_ ? nullptr : &around});
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

void Columns::add_numbers(std::size_t k, const FieldGrid& grid) {
    const Spec& spec = specs_[k];
    const GridColumn column = grid.column(spec.field);
    const std::size_t item = size_of(spec.kind), rows = grid.rows();
    const bool may_miss = spec.kind == Kind::boolean ? truths_may_miss_ : numbers_may_miss_;
    std::byte* const to = places_[k];
    places_[k] = to + rows * item;
    std::size_t i = may_miss ? 0 : read_cells(column, 0, rows, forms_[k], to, cpu_);
    if (i == rows) return;
    CellRuns runs(bare_, column, rows, may_miss);
    for (bool is_read = !may_miss; i < rows; is_read = false) {
        if (!is_read && runs.readable()) i = read_cells(runs.cells(), i, runs.stop(), forms_[k], to + i * item, cpu_);
        if (i == rows || runs.go_on(i)) continue;
        store(to + i * item, spec.kind, slow_number(k, {column.begin(i), column.size(i)}));
        ++i;
    }
}

void Columns::add_texts(std::size_t k, const FieldGrid& grid) {
    const GridColumn column = grid.column(specs_[k].field);
    const std::size_t rows = grid.rows();
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < rows; ++i) bytes += column.size(i);
    // Before the first rows, the memory for all of them is taken, as if they were alike.
    const std::size_t share = bytes * (bytes_ / std::max<std::size_t>(grid.bytes(), 1) + 1);
    const StringsBuilder::Room room = texts_[k].reserve(rows, bytes, std::min(share + share / 16, bytes_));
    static_assert(StringsBuilder::long_room >= spare_bytes);
    const std::byte* const end =
        copy_cells(column, rows, layout_.dialect.quote, room.data, room.offsets, room.size, cpu_);
    texts_[k].commit(rows, static_cast<std::size_t>(end - room.data));
}

void Columns::add(const FieldGrid& grid) {
    for (std::size_t k = 0; k < specs_.size(); ++k) {
        const Spec& spec = specs_[k];
        if (spec.kind != Kind::text) {
            add_numbers(k, grid);
        } else if (!spec.has_default) {
            add_texts(k, grid);
        } else {
            const GridColumn column = grid.column(spec.field);
            for (std::size_t i = 0; i < grid.rows(); ++i) {
                const std::string_view field(column.begin(i), column.size(i));
                add(k, field, field_at(field, 0, layout_.dialect));
            }
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
