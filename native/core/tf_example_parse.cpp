#include "core/tf_example_parse.hpp"

namespace penstock::example {
namespace {

template <typename OnPiece> void each_piece(const List& list, OnPiece&& on_piece) {
    on_piece(list.piece);
    for (const Bytes& piece : list.more) on_piece(piece);
}

std::size_t count_varints(Bytes packed) {
    std::size_t count = 0;
    for (const std::byte byte : packed) count += std::to_integer<unsigned>(byte) < 0x80;
    if (!packed.empty() && std::to_integer<unsigned>(packed.back()) >= 0x80) throw FormatError(Fault::wire, 0);
    return count;
}

std::size_t count_floats(Bytes packed) {
    if (packed.size() % sizeof(float) != 0) throw FormatError(Fault::wire, 0);
    return packed.size() / sizeof(float);
}

} // namespace

void merge_feature(Bytes feature, std::uint64_t base, List& list) {
    Cursor cursor(feature, base);
    while (!cursor.done()) {
        const proto::Tag tag = proto::read_tag(cursor);
        if (tag.wire != proto::Wire::bytes || tag.field < 1 || tag.field > 3) {
            proto::skip_value(cursor, tag);
            continue;
        }
        const Bytes piece = proto::read_bytes(cursor);
        const auto kind = static_cast<Kind>(tag.field);
        if (kind == list.kind) {
            list.more.push_back(piece);
        } else {
            list.kind = kind;
            list.piece = piece;
            list.more.clear();
        }
    }
}

void read_entry(Bytes bytes, std::uint64_t base, Entry& entry) {
    entry.key = {};
    entry.has_value = false;
    entry.more.clear();
    Cursor cursor(bytes, base);
    while (!cursor.done()) {
        const proto::Tag tag = proto::read_tag(cursor);
        if (tag.wire != proto::Wire::bytes || tag.field > 2) {
            proto::skip_value(cursor, tag);
            continue;
        }
        const Bytes part = proto::read_bytes(cursor);
        const std::uint64_t offset = cursor.offset() - part.size();
        if (tag.field == 1) {
            entry.key = part;
        } else if (!entry.has_value) {
            entry.has_value = true;
            entry.value = part;
            entry.value_offset = offset;
        } else {
            entry.more.emplace_back(part, offset);
        }
    }
}

std::size_t count_values(const List& list) {
    std::size_t count = 0;
    each_piece(list, [&](Bytes piece) {
        if (list.kind == Kind::bytes) {
            walk_texts(piece, [&](Bytes) { ++count; });
        } else if (list.kind == Kind::float32) {
            walk_numbers(piece, list.kind, [&](Bytes packed) { count += count_floats(packed); },
                         [&](Cursor& cursor) { cursor.skip(4), ++count; });
        } else if (list.kind == Kind::int64) {
            walk_numbers(piece, list.kind, [&](Bytes packed) { count += count_varints(packed); },
                         [&](Cursor& cursor) { (void)cursor.varint(), ++count; });
        }
    });
    return count;
}

void append_numbers(const List& list, std::vector<float>& to) {
    each_piece(list, [&](Bytes piece) {
        walk_numbers(
            piece, Kind::float32,
            [&](Bytes packed) {
                const std::size_t before = to.size();
                const std::size_t count = count_floats(packed);
                to.resize(before + count);
                if (count != 0) std::memcpy(to.data() + before, packed.data(), packed.size());
            },
            [&](Cursor& cursor) { to.push_back(cursor.le<float>()); });
    });
}

void append_numbers(const List& list, std::vector<std::int64_t>& to) {
    each_piece(list, [&](Bytes piece) {
        walk_numbers(
            piece, Kind::int64,
            [&](Bytes packed) {
                for (Cursor run(packed); !run.done();) to.push_back(static_cast<std::int64_t>(run.varint()));
            },
            [&](Cursor& cursor) { to.push_back(static_cast<std::int64_t>(cursor.varint())); });
    });
}

} // namespace penstock::example
