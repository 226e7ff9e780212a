#include "core/tf_example_parse.hpp"

namespace headrace::example {

void merge_feature(Part feature, List& list) {
    Cursor cursor = feature.cursor();
    while (!cursor.done()) {
        const proto::Tag tag = proto::read_tag(cursor);
        if (tag.wire != proto::Wire::bytes || tag.field > 3) {
            proto::skip_value(cursor, tag);
            continue;
        }
        const Part piece = feature.of(proto::read_bytes(cursor));
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

void read_entry(Part bytes, Entry& entry) {
    entry.key = {};
    entry.has_value = false;
    entry.more.clear();
    Cursor cursor = bytes.cursor();
    while (!cursor.done()) {
        const proto::Tag tag = proto::read_tag(cursor);
        if (tag.wire != proto::Wire::bytes || tag.field > 2) {
            proto::skip_value(cursor, tag);
            continue;
        }
        const Part part = bytes.of(proto::read_bytes(cursor));
        if (tag.field == 1) {
            entry.key = part.bytes;
        } else if (!entry.has_value) {
            entry.has_value = true;
            entry.value = part;
        } else {
            entry.more.push_back(part);
        }
    }
}

} // namespace headrace::example
