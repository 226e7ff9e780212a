#include "core/tf_example_scan.hpp"

#include <algorithm>
#include <map>
#include <string_view>

namespace penstock::example {
namespace {

bool begins(Bytes bytes, std::string_view with, std::size_t at = 0) {
    return bytes.size() >= at + with.size() && std::memcmp(bytes.data() + at, with.data(), with.size()) == 0;
}

/// How many bytes follow the first of a UTF-8 character, or -1.
int followers(unsigned first) {
    if (first < 0x80) return 0;
    if (first >= 0xC2 && first < 0xE0) return 1;
    if (first >= 0xE0 && first < 0xF0) return 2;
    return first >= 0xF0 && first < 0xF5 ? 3 : -1;
}

bool is_control(unsigned byte) { return (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F; }

} // namespace

Image recognise_image(Bytes bytes) noexcept {
    if (begins(bytes, "\xFF\xD8\xFF")) return Image::jpeg;
    if (begins(bytes, "\x89PNG\r\n\x1A\n")) return Image::png;
    if (begins(bytes, "GIF87a") || begins(bytes, "GIF89a")) return Image::gif;
    if (begins(bytes, "BM") && bytes.size() >= 26 && load_le<std::uint32_t>(bytes.data() + 2) == bytes.size()) return Image::bmp;
    if (begins(bytes, "RIFF") && begins(bytes, "WEBP", 8)) return Image::webp;
    return Image::none;
}

bool is_plain_text(Bytes bytes) noexcept {
    const auto byte = [&bytes](std::size_t i) { return std::to_integer<unsigned>(bytes[i]); };
    for (std::size_t i = 0; i < bytes.size();) {
        const unsigned first = byte(i);
        const int more = followers(first);
        if (more < 0 || is_control(first) || bytes.size() - i <= static_cast<std::size_t>(more)) return false;
        for (std::size_t k = 1; k <= static_cast<std::size_t>(more); ++k)
            if ((byte(i + k) & 0xC0) != 0x80) return false;
        // Overlong forms, surrogates and what lies beyond U+10FFFF show in the second byte.
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
    Entry entry;
    List list;
    // The last entry of a key counts, so entries are gathered first.
    std::map<std::pair<bool, std::string>, Entry> last;
    walk(payload, [&](bool in_lists, Bytes bytes, std::uint64_t offset) {
        read_entry(bytes, offset, entry);
        last[{in_lists, std::string(reinterpret_cast<const char*>(entry.key.data()), entry.key.size())}] = entry;
    });
    for (auto& [key, found] : last) {
        if (found.has_value) found.more.insert(found.more.begin(), {found.value, found.value_offset});
        KeyFacts& facts = facts_of(found.key, key.first);
        if (!key.first) {
            list.clear();
            for (const auto& [value, at] : found.more) merge_feature(value, at, list);
            feature(facts, list);
            if (list.kind != Kind::none) ++facts.records;
            continue;
        }
        std::uint64_t steps = 0;
        for (const auto& [value, at] : found.more)
            walk_steps(value, at, [&](Bytes step, std::uint64_t offset) {
                list.clear();
                merge_feature(step, offset, list);
                feature(facts, list);
                ++steps;
            });
        ++facts.records;
        facts.fewest_steps = std::min(facts.fewest_steps, steps);
        facts.most_steps = std::max(facts.most_steps, steps);
    }
}

void Scanner::feature(KeyFacts& facts, const List& list) {
    ++facts.kinds[static_cast<std::size_t>(list.kind)];
    if (list.kind == Kind::none && !facts.list) return;
    const std::uint64_t count = list.kind == Kind::none ? 0 : count_values(list);
    facts.fewest = std::min(facts.fewest, count);
    facts.most = std::max(facts.most, count);
    if (list.kind != Kind::bytes) return;
    const auto look = [&facts](Bytes text) {
        ++facts.texts;
        facts.plain_text = facts.plain_text && is_plain_text(text);
        ++facts.images[static_cast<std::size_t>(recognise_image(text))];
    };
    walk_texts(list.piece, look);
    for (const Bytes& piece : list.more) walk_texts(piece, look);
}

KeyFacts& Scanner::facts_of(Bytes key, bool list) {
    const std::string name(reinterpret_cast<const char*>(key.data()), key.size());
    const auto [place, is_new] = place_.try_emplace((list ? "L" : "F") + name, keys_.size());
    if (is_new) {
        keys_.emplace_back();
        keys_.back().name = name;
        keys_.back().list = list;
    }
    return keys_[place->second];
}

} // namespace penstock::example
