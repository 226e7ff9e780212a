#include "core/protobuf/example/scan.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "core/protobuf/example/values.hpp"

namespace headrace::example {

void merge_feature(Part feature, List& list) {
    if (list.kind == Kind::none && sole_list(feature, list)) return;
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

namespace {

std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

bool begins(Bytes bytes, std::string_view with, std::size_t at = 0) {
    return bytes.size() >= at + with.size() && std::memcmp(bytes.data() + at, with.data(), with.size()) == 0;
}

/// The number of bytes after the first of a UTF-8 character, or -1.
int followers(unsigned first) {
    if (first < 0x80) return 0;
    if (first >= 0xC2 && first < 0xE0) return 1;
    if (first >= 0xE0 && first < 0xF0) return 2;
    return first >= 0xF0 && first < 0xF5 ? 3 : -1;
}

bool is_control(unsigned byte) { return (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F; }

/// Calls `on_feature(list, count)` for the Feature of an entry, or for each step of its FeatureList.
template <typename OnFeature> void each_feature(const Entry& entry, bool is_list, OnFeature&& on_feature) {
    List list;
    if (!is_list) {
        entry.each_value([&](Part value) { merge_feature(value, list); });
        on_feature(list, count_values(list));
        return;
    }
    entry.each_value([&](Part value) {
        walk_fields(value, 1, [&](Part step) {
            list.clear();
            merge_feature(step, list);
            on_feature(list, count_values(list));
        });
    });
}

} // namespace

Image recognise_image(Bytes bytes) noexcept {
    if (begins(bytes, "\xFF\xD8\xFF")) return Image::jpeg;
    if (begins(bytes, "\x89PNG\r\n\x1A\n")) return Image::png;
    if (begins(bytes, "GIF87a") || begins(bytes, "GIF89a")) return Image::gif;
    if (begins(bytes, "BM") && bytes.size() >= 26 && load_le<std::uint32_t>(bytes.data() + 2) == bytes.size())
        return Image::bmp;
    if (begins(bytes, "RIFF") && begins(bytes, "WEBP", 8)) return Image::webp;
    // In either byte order, the fourth byte is the other half of the number 42.
    if (begins(bytes, "II*") && bytes.size() >= 8 && bytes[3] == std::byte{0}) return Image::tiff;
    if (begins(bytes, "MM") && bytes.size() >= 8 && bytes[2] == std::byte{0} && begins(bytes, "*", 3))
        return Image::tiff;
    return Image::none;
}

bool is_plain_text(Bytes bytes) noexcept {
    const auto byte = [&bytes](std::size_t i) { return std::to_integer<unsigned>(bytes[i]); };
    for (std::size_t i = 0; i < bytes.size();) {
        const unsigned first = byte(i);
        const int more = followers(first);
        if (more < 0 || is_control(first) || bytes.size() - i <= static_cast<std::size_t>(more)) return false;
        for (std::size_t k = 1; std::cmp_less_equal(k, more); ++k)
            if ((byte(i + k) & 0xC0) != 0x80) return false;
        // The second byte reveals overlong forms, surrogates and code points beyond U+10FFFF.
        const unsigned second = more > 0 ? byte(i + 1) : 0;
        if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90) ||
            (first == 0xF4 && second > 0x8F))
            return false;
        i += static_cast<std::size_t>(more) + 1;
    }
    return true;
}

void Scanner::add(const Spans& spans) {
    for (std::size_t i = 0; i < spans.payloads.size() && is_message_; ++i) {
        spans.check(i);
        try {
            record(spans.payloads[i]);
            ++records_;
        } catch (const FormatError&) {
            is_message_ = false;
        }
    }
}

void Scanner::record(Bytes payload) {
    // The last entry of a key counts, so collect the entries first. Facts cover whole records only.
    std::map<std::pair<bool, std::string_view>, Entry> last;
    Entry entry;
    walk(payload, [&](bool in_lists, Part bytes) {
        read_entry(bytes, entry);
        last[{in_lists, as_text(entry.key)}] = entry;
    });
    for (const auto& [key, found] : last) each_feature(found, key.first, [](const List&, std::uint64_t) {});
    for (const auto& [key, found] : last) remember(found, key.first);
}

void Scanner::remember(const Entry& entry, bool list) {
    KeyFacts& facts = facts_of(entry.key, list);
    std::uint64_t steps = 0;
    bool has_values = list;
    each_feature(entry, list, [&](const List& one, std::uint64_t count) {
        feature(facts, one, count);
        has_values = has_values || one.kind != Kind::none;
        ++steps;
    });
    if (has_values) ++facts.records;
    if (!list) return;
    facts.fewest_steps = std::min(facts.fewest_steps, steps);
    facts.most_steps = std::max(facts.most_steps, steps);
}

void Scanner::feature(KeyFacts& facts, const List& list, std::uint64_t count) {
    ++facts.kinds[static_cast<std::size_t>(list.kind)];
    if (list.kind == Kind::none && !facts.list) return;
    facts.fewest = std::min(facts.fewest, count);
    facts.most = std::max(facts.most, count);
    if (list.kind != Kind::bytes) return;
    each_text(list, [&facts](Bytes text) {
        ++facts.texts;
        facts.plain_text = facts.plain_text && is_plain_text(text);
        ++facts.images[static_cast<std::size_t>(recognise_image(text))];
    });
}

KeyFacts& Scanner::facts_of(Bytes key, bool list) {
    const std::string name(as_text(key));
    const auto [place, is_new] = place_.try_emplace((list ? "L" : "F") + name, keys_.size());
    if (is_new) {
        keys_.emplace_back();
        keys_.back().name = name;
        keys_.back().list = list;
    }
    return keys_[place->second];
}

} // namespace headrace::example
