#include "core/parquet/page.hpp"

#include <array>
#include <limits>

#include "core/parquet/thrift.hpp"

namespace headrace::parquet {
namespace {

// The numbers of a struct by their field. Those that are missing are negative, which none of them may be.
constexpr std::int32_t last_field = 8;
using Numbers = std::array<std::int64_t, last_field + 1>;

constexpr Numbers make_missing() {
    Numbers numbers{};
    numbers.fill(-1);
    return numbers;
}

constexpr Numbers missing = make_missing();

// Fields of PageHeader.
constexpr std::int32_t type_field = 1, decoded_field = 2, stored_field = 3, crc_field = 4, data_field = 5,
                       dictionary_field = 7, data_v2_field = 8;

// Fields of DataPageHeader and DictionaryPageHeader.
constexpr std::size_t values_field = 1, encoding_field = 2, definition_field = 3, repetition_field = 4;

// Fields of DataPageHeaderV2, whose first is the same.
constexpr std::size_t nulls_field = 2, rows_field = 3, encoding_v2_field = 4, definition_bytes_field = 5,
                      repetition_bytes_field = 6, is_compressed_field = 7;

// A field of another type counts as one that is unknown, as it does for Thrift.
Numbers read_numbers(ThriftReader& reader) {
    Numbers numbers = missing;
    reader.each_field([&](const ThriftField& field) {
        if (field.number < 1 || field.number > last_field) return false;
        const auto number = static_cast<std::size_t>(field.number);
        if (field.type == ThriftType::yes || field.type == ThriftType::no) {
            if (number == is_compressed_field) numbers[number] = field.type == ThriftType::yes;
            return true;
        }
        if (field.type != ThriftType::i32 || number == is_compressed_field) return false;
        numbers[number] = reader.integer();
        return true;
    });
    return numbers;
}

Encoding encoding_of(std::uint64_t number) noexcept {
    switch (number) {
    case 0:
    case 2:
    case 3:
    case 5:
    case 6:
    case 7:
    case 8:
    case 9: return static_cast<Encoding>(number);
    default: return Encoding::other;
    }
}

// What the structs in a PageHeader say.
struct Parts {
    Numbers top = missing;
    Numbers data = missing;
    Numbers dictionary = missing;
    Numbers data_v2 = missing;
};

} // namespace

PageHeader read_page_header(Cursor& cursor) {
    const std::uint64_t begin = cursor.offset();
    PageHeader header;
    Parts parts;
    ThriftReader reader(cursor);
    reader.each_field([&](const ThriftField& field) {
        if (field.type == ThriftType::i32) {
            if (field.number == crc_field) header.crc = static_cast<std::uint32_t>(reader.integer());
            else if (field.number >= 1 && field.number < crc_field)
                parts.top[static_cast<std::size_t>(field.number)] = reader.integer();
            else return false;
            return true;
        }
        if (field.type != ThriftType::structure) return false;
        switch (field.number) {
        case data_field: parts.data = read_numbers(reader); return true;
        case dictionary_field: parts.dictionary = read_numbers(reader); return true;
        case data_v2_field: parts.data_v2 = read_numbers(reader); return true;
        default: return false;
        }
    });
    const auto number = [begin](const Numbers& numbers, std::size_t field) {
        const std::int64_t found = numbers[field];
        if (found < 0 || found > std::numeric_limits<std::int32_t>::max()) throw FormatError(Fault::structure, begin);
        return static_cast<std::uint64_t>(found);
    };
    header.stored_bytes = number(parts.top, stored_field);
    header.decoded_bytes = number(parts.top, decoded_field);
    const std::uint64_t type = number(parts.top, type_field);
    if (type > static_cast<std::uint64_t>(PageType::data_v2)) throw FormatError(Fault::structure, begin);
    header.type = static_cast<PageType>(type);
    switch (header.type) {
    case PageType::index: break;
    case PageType::data:
        header.values = number(parts.data, values_field);
        header.encoding = encoding_of(number(parts.data, encoding_field));
        header.definition = encoding_of(number(parts.data, definition_field));
        header.repetition = encoding_of(number(parts.data, repetition_field));
        break;
    case PageType::dictionary:
        header.values = number(parts.dictionary, values_field);
        header.encoding = encoding_of(number(parts.dictionary, encoding_field));
        break;
    case PageType::data_v2: {
        header.values = number(parts.data_v2, values_field);
        header.nulls = number(parts.data_v2, nulls_field);
        header.rows = number(parts.data_v2, rows_field);
        header.encoding = encoding_of(number(parts.data_v2, encoding_v2_field));
        header.definition_bytes = number(parts.data_v2, definition_bytes_field);
        header.repetition_bytes = number(parts.data_v2, repetition_bytes_field);
        header.is_compressed = parts.data_v2[is_compressed_field] != 0; // true if it is missing
        const std::uint64_t levels = header.definition_bytes + header.repetition_bytes;
        if (levels > header.stored_bytes || levels > header.decoded_bytes || header.nulls > header.values ||
            header.rows > header.values)
            throw FormatError(Fault::structure, begin);
        break;
    }
    }
    return header;
}

} // namespace headrace::parquet
