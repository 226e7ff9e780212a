#include "core/protobuf/wire.hpp"

namespace headrace::proto {
namespace {

// protobuf's own nesting limit for messages; groups nest in the same way.
constexpr int deepest = 100;

// NOLINTNEXTLINE(misc-no-recursion): groups nest at most `deepest` levels.
void skip_group(Cursor& cursor, std::uint32_t field, int depth) {
    if (depth > deepest) throw FormatError(Fault::wire, cursor.offset());
    for (;;) {
        const std::uint64_t offset = cursor.offset();
        const Tag tag = read_tag(cursor);
        if (tag.wire == Wire::end_group) {
            if (tag.field != field) throw FormatError(Fault::wire, offset);
            return;
        }
        if (tag.wire == Wire::group) {
            skip_group(cursor, tag.field, depth + 1);
        } else {
            skip_value(cursor, tag);
        }
    }
}

} // namespace

// NOLINTNEXTLINE(misc-no-recursion): skip_group limits the depth.
void skip_value(Cursor& cursor, Tag tag) {
    switch (tag.wire) {
    case Wire::varint: (void)cursor.varint(); return;
    case Wire::fixed64: cursor.skip(8); return;
    case Wire::bytes: (void)read_bytes(cursor); return;
    case Wire::fixed32: cursor.skip(4); return;
    case Wire::group: skip_group(cursor, tag.field, 0); return;
    case Wire::end_group: break;
    }
    throw FormatError(Fault::wire, cursor.offset());
}

} // namespace headrace::proto
