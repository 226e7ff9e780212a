#pragma once

#include <vector>

#include "core/proto_wire.hpp"

namespace penstock::example {

/// tf.train.Example and SequenceExample on the wire (TensorFlow, core/example/{example,feature}.proto):
///   Example          1: Features                 SequenceExample  1: Features context   2: FeatureLists
///   Features         1: map<string, Feature>     FeatureLists     1: map<string, FeatureList>
///   Feature          oneof 1: BytesList  2: FloatList  3: Int64List          FeatureList  1: repeated Feature
///   each list        1: repeated bytes / float / int64 (packed or not)
/// protobuf's rules hold where tf.data's parser differs: every piece of a list counts, the last kind of a oneof wins, the
/// last of several entries with one key wins whole.

/// Which list a Feature holds. The numbers are those that errors carry.
enum class Kind : std::uint8_t {
    none = 0,
    bytes = 1,
    float32 = 2,
    int64 = 3,
    number = 4, ///< Asked for only: float32 or int64, whichever a record holds, as float64.
};

/// The list in one Feature, still encoded. Nearly always one piece; protobuf allows it to be given in several.
struct List {
    Kind kind = Kind::none;
    Bytes piece;
    std::vector<Bytes> more; ///< Pieces behind the first.

    void clear() {
        kind = Kind::none;
        piece = {};
        more.clear();
    }
};

/// Merges an encoded Feature into `list`. `base` is where the bytes begin in the payload, for errors.
void merge_feature(Bytes feature, std::uint64_t base, List& list);

/// One entry of a map: its key, and the encoded values given for it (one, unless the wire is odd; none if left out).
struct Entry {
    Bytes key;
    Bytes value;
    std::uint64_t value_offset = 0;
    bool has_value = false;
    std::vector<std::pair<Bytes, std::uint64_t>> more; ///< Further values, which merge into the first.
};

/// Reads a map entry.
void read_entry(Bytes bytes, std::uint64_t base, Entry& entry);

/// Walks over the top level of a payload: `on_entry(in_lists, entry_bytes, offset)` for every map entry of Features
/// (false) and FeatureLists (true), in order.
template <typename OnEntry> void walk(Bytes payload, OnEntry&& on_entry) {
    Cursor top(payload);
    while (!top.done()) {
        const proto::Tag tag = proto::read_tag(top);
        if (tag.wire != proto::Wire::bytes || tag.field > 2) {
            proto::skip_value(top, tag);
            continue;
        }
        const Bytes map = proto::read_bytes(top);
        Cursor entries(map, top.offset() - map.size());
        while (!entries.done()) {
            const proto::Tag inner = proto::read_tag(entries);
            if (inner.wire != proto::Wire::bytes || inner.field != 1) {
                proto::skip_value(entries, inner);
                continue;
            }
            const Bytes entry = proto::read_bytes(entries);
            on_entry(tag.field == 2, entry, entries.offset() - entry.size());
        }
    }
}

/// Calls `on_step(feature_bytes, offset)` for every Feature of an encoded FeatureList.
template <typename OnStep> void walk_steps(Bytes feature_list, std::uint64_t base, OnStep&& on_step) {
    Cursor steps(feature_list, base);
    while (!steps.done()) {
        const proto::Tag tag = proto::read_tag(steps);
        if (tag.wire != proto::Wire::bytes || tag.field != 1) {
            proto::skip_value(steps, tag);
            continue;
        }
        const Bytes feature = proto::read_bytes(steps);
        on_step(feature, steps.offset() - feature.size());
    }
}

/// Calls `on_packed(bytes)` for packed runs and `on_single(cursor)` for single values (4-byte floats or varints, by kind).
template <typename OnPacked, typename OnSingle>
void walk_numbers(Bytes piece, Kind kind, OnPacked&& on_packed, OnSingle&& on_single) {
    const proto::Wire single = kind == Kind::float32 ? proto::Wire::fixed32 : proto::Wire::varint;
    Cursor cursor(piece);
    while (!cursor.done()) {
        const proto::Tag tag = proto::read_tag(cursor);
        if (tag.field == 1 && tag.wire == proto::Wire::bytes) {
            on_packed(proto::read_bytes(cursor));
        } else if (tag.field == 1 && tag.wire == single) {
            on_single(cursor);
        } else {
            proto::skip_value(cursor, tag);
        }
    }
}

/// Calls `on_value(bytes)` for every value of a BytesList.
template <typename OnValue> void walk_texts(Bytes piece, OnValue&& on_value) {
    Cursor cursor(piece);
    while (!cursor.done()) {
        const proto::Tag tag = proto::read_tag(cursor);
        if (tag.field == 1 && tag.wire == proto::Wire::bytes) {
            on_value(proto::read_bytes(cursor));
        } else {
            proto::skip_value(cursor, tag);
        }
    }
}

/// How many values a list holds. Throws FormatError{wire} for packed runs that do not end with a whole value.
[[nodiscard]] std::size_t count_values(const List& list);

/// Appends every number of a list to a vector of int64_t or float.
void append_numbers(const List& list, std::vector<float>& to);
void append_numbers(const List& list, std::vector<std::int64_t>& to);

} // namespace penstock::example
