#include "core/csv/decode.hpp"

#include <algorithm>

namespace headrace::csv {

Decoder::Decoder(Layout layout, std::vector<Spec> specs)
    : layout_(std::move(layout)),
      specs_(std::move(specs)),
      numbers_may_miss_(layout_.missing.has_number(layout_.dialect.decimal)),
      truths_may_miss_(layout_.missing.has_truth()) {
    for (std::size_t k = 0; k < specs_.size(); ++k) {
        const std::size_t field = specs_[k].field;
        if (field >= layout_.width) throw FormatError(Fault::range, 0, layout_.width, field);
        if (field >= plan_.size()) plan_.resize(field + 1, -1);
        if (plan_[field] >= 0) throw FormatError(Fault::range, 0, layout_.width, field);
        plan_[field] = static_cast<int>(k);
    }
}

/// Decodes the field at `at` and returns its end.
std::size_t Decoder::add_field(Columns& columns, std::string_view row, std::size_t at, std::size_t k) const {
    const Spec& spec = specs_[k];
    std::uint64_t bits = 0;
    std::size_t end = at; // Fast path: a bare number or truth value between delimiters.
    if (spec.kind == Kind::boolean && !truths_may_miss_) end += truth_at(row.substr(at), bits);
    else if (spec.kind < Kind::boolean && !numbers_may_miss_)
        end += read_number(row.substr(at), spec.kind, layout_.dialect.decimal, bits);
    if (end != at && (end == row.size() || row[end] == layout_.dialect.delimiter) && !may_be_rounded(spec, bits)) {
        columns.put(k, bits);
        return end;
    }
    const Field field = field_at(row, at, layout_.dialect);
    columns.add(k, row, field);
    return field.end;
}

void Decoder::add_row(Columns& columns, std::string_view row) const {
    std::size_t at = 0, width = 0;
    for (const int k : plan_) {
        if (width != 0) {
            if (at == row.size()) throw FormatError(Fault::wrong_count, 0, layout_.width, width);
            ++at; // the delimiter
        }
        at = k < 0 ? field_at(row, at, layout_.dialect).end : add_field(columns, row, at, static_cast<std::size_t>(k));
        ++width;
    }
    if (width == 0) width = width_from(row, 0, layout_.dialect);
    else if (at != row.size()) width += width_from(row, at + 1, layout_.dialect);
    if (width != layout_.width) throw FormatError(Fault::wrong_count, 0, layout_.width, width);
}

Decoded Decoder::decode(const Spans& spans, const std::shared_ptr<Pool>& pool) const {
    std::size_t bytes = 0;
    for (const Bytes row : spans.payloads) bytes += row.size();
    Columns columns(layout_, specs_, pool, spans.payloads.size(), bytes,
                    bytes / std::max<std::size_t>(layout_.width, 1));
    for (std::size_t i = 0; i < spans.payloads.size(); ++i) {
        const std::string_view row = text_of(spans.payloads[i]);
        try {
            try {
                add_row(columns, row);
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
    return columns.take();
}

std::optional<Decoded> Decoder::decode(std::span<const Stretch> stretches, std::size_t rows,
                                       const std::shared_ptr<Pool>& pool, const Cpu& cpu) const {
    std::size_t bytes = 0, left = rows;
    for (const Stretch& stretch : stretches) {
        if (stretch.begin >= stretch.end || stretch.end > stretch.file.size()) return std::nullopt;
        bytes += stretch.end - stretch.begin;
    }
    if (rows > bytes) return std::nullopt; // A row takes a byte at least.
    Columns columns(layout_, specs_, pool, rows, bytes, 0, cpu);
    FieldGrid grid(layout_.dialect, layout_.width, cpu);
    for (const Stretch& stretch : stretches) {
        for (std::uint64_t at = stretch.begin; at != stretch.end;) {
            const std::optional<std::uint64_t> next = grid.find(stretch.file, at, stretch.end);
            if (!next || grid.rows() > left) return std::nullopt;
            left -= grid.rows();
            try {
                columns.add(grid);
            } catch (const FormatError&) {
                return std::nullopt;
            }
            at = *next;
        }
    }
    if (left != 0) return std::nullopt;
    Decoded decoded = columns.take();
    if (std::ranges::any_of(decoded.columns, [](const Column& column) { return column.no_text.has_value(); }))
        return std::nullopt;
    return decoded;
}

} // namespace headrace::csv
