#pragma once

#include <algorithm>
#include <optional>

#include "check.hpp"
#include "core/parquet/column.hpp"

/// Rows of columns as text, for the tests of ColumnReader.
namespace headrace::testing {

using namespace headrace::parquet;

using Buffer = std::vector<std::byte>;
using Texts = std::vector<std::string>;

inline constexpr std::size_t idle_limit = 1 << 30;

inline ColumnForm form_of(std::size_t stored, std::size_t wanted, std::uint32_t most, std::int32_t empty = -1) {
    return {{stored, wanted}, {most, empty}};
}

inline ColumnForm with_fill(ColumnForm form) {
    form.fill.emplace(form.values.is_text() ? 3 : form.values.wanted, std::byte{0x55});
    return form;
}

/// One value as text.
inline std::string value_of(const ColumnReader::Rows& rows, const ColumnForm& form, std::size_t at) {
    if (form.values.is_text()) {
        const bool recurs = rows.codes.data() != nullptr;
        if (recurs) at = load_le<std::uint32_t>(rows.codes.data() + at * sizeof(std::uint32_t));
        check(at < rows.texts.count);
        const Bytes text = rows.texts.view().at(at);
        return {reinterpret_cast<const char*>(text.data()), text.size()};
    }
    std::int64_t number = 0; // sign-extended
    for (std::size_t i = form.values.wanted; i-- > 0;) {
        const auto byte = std::to_integer<std::uint8_t>(rows.numbers.data()[at * form.values.wanted + i]);
        number = i + 1 == form.values.wanted ? static_cast<std::int8_t>(byte) : number * 256 + byte;
    }
    return std::to_string(number);
}

inline void add_rows(Texts& to, const ColumnReader::Rows& rows, const ColumnForm& form) {
    const auto* const offsets = reinterpret_cast<const std::int64_t*>(rows.offsets.data());
    if (form.levels.has_lists()) check(offsets[0] == 0 && offsets[rows.rows] == static_cast<std::int64_t>(rows.values));
    else check(rows.values == rows.rows);
    if (form.values.is_text())
        check(rows.codes.data() == nullptr ? rows.texts.count == rows.values : rows.texts.count <= rows.values);
    for (std::size_t row = 0; row < rows.rows; ++row) {
        if (!form.levels.has_lists()) {
            to.push_back(value_of(rows, form, row));
            continue;
        }
        check(offsets[row] <= offsets[row + 1]);
        std::string list = "[";
        for (std::int64_t at = offsets[row]; at < offsets[row + 1]; ++at)
            list += value_of(rows, form, static_cast<std::size_t>(at)) + ",";
        to.push_back(list + "]");
    }
}

inline Texts read_rows(ColumnReader& reader, const ColumnForm& form, std::size_t count, std::size_t portion) {
    Texts found;
    while (found.size() < count) add_rows(found, reader.read(std::min(portion, count - found.size())), form);
    return found;
}

/// The rows of a column of row groups; nothing if it is refused.
inline std::optional<Texts> try_rows(const Buffer& file, std::vector<ColumnChunk> chunks, const ColumnForm& form,
                                     std::size_t portion, std::size_t count) {
    const auto pool = std::make_shared<Pool>(idle_limit);
    std::optional<Texts> found;
    try {
        ColumnReader reader(pool, file, std::move(chunks), form);
        found = read_rows(reader, form, count, portion);
    } catch (const FormatError& error) {
        check(error.fault == Fault::structure || error.fault == Fault::truncated || error.fault == Fault::wire ||
              error.fault == Fault::payload_checksum);
    }
    check(pool->stats().used_bytes == 0);
    return found;
}

} // namespace headrace::testing
