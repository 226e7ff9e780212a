#include "core/riegeli/array_record.hpp"

#include <array>

#include "core/protobuf/wire.hpp"

namespace headrace::array_record {
namespace {

constexpr std::uint64_t version = 1;
constexpr std::uint64_t most = std::uint64_t{1} << 61; // limit of an offset or a count

// The fields 1 to 4 of a message.
struct Fields {
    std::array<std::uint64_t, 5> numbers{};
    std::array<Bytes, 5> bytes{};
};

Fields read_fields(Bytes message) {
    Fields fields;
    Cursor cursor(message);
    while (!cursor.done()) {
        const proto::Tag tag = proto::read_tag(cursor);
        const bool known = tag.field < fields.numbers.size();
        if (known && tag.wire == proto::Wire::varint) fields.numbers[tag.field] = cursor.varint();
        else if (known && tag.wire == proto::Wire::bytes) fields.bytes[tag.field] = proto::read_bytes(cursor);
        else proto::skip_value(cursor, tag);
    }
    return fields;
}

void put_number(std::vector<std::byte>& to, std::uint32_t field, std::uint64_t value) {
    std::array<std::byte, 11> bytes;
    bytes[0] = static_cast<std::byte>(field << 3);
    const std::byte* const end = proto::write_varint(bytes.data() + 1, value);
    to.insert(to.end(), bytes.begin(), bytes.begin() + (end - bytes.data()));
}

void put_bytes(std::vector<std::byte>& to, std::uint32_t field, Bytes value) {
    std::array<std::byte, 11> head;
    const std::byte* const end = proto::write_head(head.data(), field, value.size());
    to.insert(to.end(), head.begin(), head.begin() + (end - head.data()));
    to.insert(to.end(), value.begin(), value.end());
}

std::int64_t checked(std::uint64_t value) {
    if (value > most) throw FormatError(Fault::structure, 0);
    return static_cast<std::int64_t>(value);
}

} // namespace

Footer parse_footer(std::span<const Bytes> records) {
    if (records.empty()) throw FormatError(Fault::structure, 0);
    const Fields metadata = read_fields(read_fields(records[0]).bytes[1]);
    Footer footer;
    footer.num_records = metadata.numbers[3];
    const Bytes options = metadata.bytes[4];
    footer.options.assign(reinterpret_cast<const char*>(options.data()), options.size());
    if (metadata.numbers[1] != version || metadata.numbers[2] != records.size() - 1)
        throw FormatError(Fault::structure, 0);
    std::uint64_t total = 0;
    for (const Bytes& record : records.subspan(1)) {
        const Fields chunk = read_fields(record);
        footer.offsets.push_back(checked(chunk.numbers[1]));
        footer.decoded_sizes.push_back(checked(chunk.numbers[2]));
        footer.record_counts.push_back(checked(chunk.numbers[3]));
        total += chunk.numbers[3];
        checked(total);
    }
    if (total != footer.num_records) throw FormatError(Fault::structure, 0);
    return footer;
}

EncodedFooter encode_footer(const Footer& footer) {
    EncodedFooter encoded;
    std::vector<std::byte> metadata;
    put_number(metadata, 1, version);
    put_number(metadata, 2, footer.offsets.size());
    put_number(metadata, 3, footer.num_records);
    put_bytes(metadata, 4, std::as_bytes(std::span(footer.options)));
    put_bytes(encoded.values, 1, metadata);
    encoded.sizes.push_back(static_cast<std::int64_t>(encoded.values.size()));
    for (std::size_t i = 0; i < footer.offsets.size(); ++i) {
        const std::size_t before = encoded.values.size();
        put_number(encoded.values, 1, static_cast<std::uint64_t>(footer.offsets[i]));
        put_number(encoded.values, 2, static_cast<std::uint64_t>(footer.decoded_sizes[i]));
        put_number(encoded.values, 3, static_cast<std::uint64_t>(footer.record_counts[i]));
        encoded.sizes.push_back(static_cast<std::int64_t>(encoded.values.size() - before));
    }
    return encoded;
}

std::uint64_t parse_postscript(Bytes record) {
    const Fields fields = read_fields(record);
    if (fields.numbers[2] != magic) throw FormatError(Fault::magic, 0, magic, fields.numbers[2]);
    return fields.numbers[1];
}

std::vector<std::byte> encode_postscript(std::uint64_t footer_offset) {
    std::vector<std::byte> record;
    put_number(record, 1, footer_offset);
    put_number(record, 2, magic);
    return record;
}

} // namespace headrace::array_record
