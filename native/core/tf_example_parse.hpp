#pragma once

#include <vector>

#include "core/proto_wire.hpp"

namespace headrace::example {

/// tf.train.Example and SequenceExample on the wire (TensorFlow, core/example/{example,feature}.proto):
///   Example          1: Features                 SequenceExample  1: Features context   2: FeatureLists
///   Features         1: map<string, Feature>     FeatureLists     1: map<string, FeatureList>
///   Feature          oneof 1: BytesList  2: FloatList  3: Int64List          FeatureList  1: repeated Feature
///   each list        1: repeated bytes / float / int64 (packed or not)
/// protobuf's rules hold where tf.data's parser differs: every piece of a list counts, the last kind of a oneof wins, the
/// last of several entries with one key wins whole. What nobody asks for is passed over, not looked into.

/// Which list a Feature holds. The numbers are those that errors carry.
enum class Kind : std::uint8_t {
    none = 0,
    bytes = 1,
    float32 = 2,
    int64 = 3,
    number = 4, ///< Asked for only: float32 or int64, whichever a record holds, as float64.
};

/// A part of a payload, and the payload's first byte, from which errors count.
struct Part {
    Bytes bytes;
    const std::byte* origin = nullptr;

    [[nodiscard]] Cursor cursor() const noexcept { return Cursor(bytes, static_cast<std::uint64_t>(bytes.data() - origin)); }
    [[nodiscard]] Part of(Bytes inner) const noexcept { return {inner, origin}; }
};

/// The list in one Feature, still encoded. Nearly always one piece; protobuf allows it to be given in several.
struct List {
    Kind kind = Kind::none;
    Part piece;
    std::vector<Part> more; ///< Pieces behind the first.

    void clear() noexcept {
        kind = Kind::none;
        piece = {};
        more.clear();
    }
};

/// Merges an encoded Feature into `list`.
void merge_feature(Part feature, List& list);

/// One entry of a map: its key, and the encoded values given for it (one, unless the wire is odd; none if left out).
struct Entry {
    Bytes key;
    Part value;
    bool has_value = false;
    std::vector<Part> more; ///< Further values, which merge into the first.

    /// Calls `on_value(part)` for every value given.
    template <typename OnValue> void each_value(OnValue&& on_value) const {
        if (has_value) on_value(value);
        for (const Part& part : more) on_value(part);
    }
};

/// Reads a map entry.
void read_entry(Part bytes, Entry& entry);

/// Calls `on_field(part)` for every length-delimited field `number` of a message, in order; passes over all others.
template <typename OnField> void walk_fields(Part message, std::uint32_t number, OnField&& on_field) {
    Cursor cursor = message.cursor();
    while (!cursor.done()) {
        const proto::Tag tag = proto::read_tag(cursor);
        if (tag.field == number && tag.wire == proto::Wire::bytes) {
            on_field(message.of(proto::read_bytes(cursor)));
        } else {
            proto::skip_value(cursor, tag);
        }
    }
}

/// Walks over the top level of a payload: `on_entry(in_lists, entry_bytes)` for every map entry of Features (false) and
/// FeatureLists (true), in order.
template <typename OnEntry> void walk(Bytes payload, OnEntry&& on_entry) {
    const Part whole{payload, payload.data()};
    Cursor top = whole.cursor();
    while (!top.done()) {
        const proto::Tag tag = proto::read_tag(top);
        if (tag.wire != proto::Wire::bytes || tag.field > 2) {
            proto::skip_value(top, tag);
            continue;
        }
        const bool in_lists = tag.field == 2;
        walk_fields(whole.of(proto::read_bytes(top)), 1, [&](Part entry) { on_entry(in_lists, entry); });
    }
}

} // namespace headrace::example
