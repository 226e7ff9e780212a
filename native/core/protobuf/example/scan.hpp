#pragma once

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/spans.hpp"
#include "core/protobuf/wire.hpp"

namespace headrace::example {

/// tf.train.Example and SequenceExample on the wire (TensorFlow, core/example/{example,feature}.proto):
///   Example          1: Features                 SequenceExample  1: Features context   2: FeatureLists
///   Features         1: map<string, Feature>     FeatureLists     1: map<string, FeatureList>
///   Feature          oneof 1: BytesList  2: FloatList  3: Int64List          FeatureList  1: repeated Feature
///   each list        1: repeated bytes / float / int64 (packed or not)
/// protobuf's rules apply even where tf.data's parser differs: all pieces of a list count, the last kind of a oneof
/// wins, and the last of several entries with one key replaces the others. Unrequested entries are skipped unread.

/// Which list a Feature holds. Errors carry these numbers.
enum class Kind : std::uint8_t {
    none = 0,
    bytes = 1,
    float32 = 2,
    int64 = 3,
    number = 4, ///< Only as a request: float32 or int64, whichever the record holds, as float64.
};

/// A part of a payload, with the start of the payload for offsets in errors.
struct Part {
    Bytes bytes;
    const std::byte* origin = nullptr;

    [[nodiscard]] Cursor cursor() const noexcept {
        return Cursor(bytes, static_cast<std::uint64_t>(bytes.data() - origin));
    }
    [[nodiscard]] Part of(Bytes inner) const noexcept { return {inner, origin}; }
};

/// The list of one Feature, still encoded. Nearly always one piece, but protobuf allows several.
struct List {
    Kind kind = Kind::none;
    Part piece;
    std::vector<Part> more; ///< Pieces after the first.

    void clear() noexcept {
        kind = Kind::none;
        piece = {};
        more.clear();
    }
};

/// Sets `list` to the only list of an encoded Feature. False, with nothing done, for one written in another way.
[[nodiscard]] inline bool sole_list(Part feature, List& list) noexcept {
    if (feature.bytes.empty()) return false;
    const auto tag = std::to_integer<unsigned>(feature.bytes[0]);
    if (tag != 0x0A && tag != 0x12 && tag != 0x1A) return false;
    Bytes rest = feature.bytes.subspan(1);
    if (!proto::strip_length(rest)) return false;
    list.kind = static_cast<Kind>(tag >> 3);
    list.piece = feature.of(rest);
    list.more.clear();
    return true;
}

/// Merges an encoded Feature into `list`.
void merge_feature(Part feature, List& list);

/// A map entry: its key and its encoded values. Normally one value; none if omitted, several in unusual encodings.
struct Entry {
    Bytes key;
    Part value;
    bool has_value = false;
    std::vector<Part> more; ///< Further values, which merge into the first.

    /// Calls `on_value(part)` for every value.
    template <typename OnValue> void each_value(OnValue&& on_value) const {
        if (has_value) on_value(value);
        for (const Part& part : more) on_value(part);
    }
};

/// Reads a map entry.
void read_entry(Part bytes, Entry& entry);

/// Calls `on_field(part)` for every length-delimited field `number` of a message, in order. Skips all others.
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

/// Walks the top level of a payload: calls `on_entry(in_lists, entry_bytes)` for every map entry of Features (false)
/// and FeatureLists (true), in order.
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

/// Image formats recognised by their first bytes.
enum class Image : std::uint8_t { none, jpeg, png, gif, bmp, webp, tiff };
[[nodiscard]] Image recognise_image(Bytes bytes) noexcept;

/// Whether bytes are UTF-8 text whose only control characters are tab, line feed and carriage return.
[[nodiscard]] bool is_plain_text(Bytes bytes) noexcept;

/// Facts about one key.
struct KeyFacts {
    std::string name;
    bool list = false;                    ///< A feature list.
    std::uint64_t records = 0;            ///< Records with this key (for features: with a list of values).
    std::array<std::uint64_t, 4> kinds{}; ///< Number of Features per Kind; index 0: no list at all.
    std::uint64_t fewest = UINT64_MAX;    ///< Values per Feature.
    std::uint64_t most = 0;
    std::uint64_t fewest_steps = UINT64_MAX; ///< Per feature list.
    std::uint64_t most_steps = 0;
    std::uint64_t texts = 0;               ///< Number of bytes values examined.
    bool plain_text = true;                ///< Whether all of them are text.
    std::array<std::uint64_t, 7> images{}; ///< Number of them per Image.
};

/// Gathers facts on every key of some records, to infer a schema.
class Scanner {
  public:
    /// Examines the records of `spans`. A payload that is not a protobuf message ends the scan, and `is_message()`
    /// becomes false.
    void add(const Spans& spans);

    [[nodiscard]] bool is_message() const noexcept { return is_message_; }
    [[nodiscard]] std::uint64_t records() const noexcept { return records_; }
    [[nodiscard]] const std::vector<KeyFacts>& keys() const noexcept { return keys_; }

  private:
    void record(Bytes payload);
    void remember(const Entry& entry, bool list);
    static void feature(KeyFacts& facts, const List& list, std::uint64_t count);
    KeyFacts& facts_of(Bytes key, bool list);

    std::vector<KeyFacts> keys_;
    std::unordered_map<std::string, std::size_t> place_;
    std::uint64_t records_ = 0;
    bool is_message_ = true;
};

} // namespace headrace::example
