#include "core/protobuf/example/template.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace headrace::example {
namespace {

// A file must not make a template grow without bound: this many keys that were not requested, or of a first record.
constexpr std::size_t most_skipped = 64;
constexpr std::size_t most_keys = 4096;
constexpr std::size_t longest_key = 1024;
constexpr std::size_t most_new = 64; // keys that are looked for in a template, each in all of it

using Content = RecordTemplate::Content;

Content content_of(const Spec& spec) {
    if (spec.list) return Content::steps;
    switch (spec.kind) {
    case Kind::bytes: return spec.count == 1 ? Content::text : Content::texts;
    case Kind::float32: return spec.count >= 0 ? Content::floats : Content::run;
    case Kind::int64: return spec.count == 1 ? Content::integer : Content::run;
    case Kind::number:
    case Kind::none: break;
    }
    return Content::value;
}

std::string head_of(const std::string& key) {
    std::array<std::byte, 11> length{};
    const std::byte* const end = proto::write_head(length.data(), 1, key.size());
    std::string head(reinterpret_cast<const char*>(length.data()), static_cast<std::size_t>(end - length.data()));
    head.append(key).push_back('\x12');
    return head;
}

/// The keys of records that have those of `before` and of `keys`, if both have one order; else `keys`. Both lists are
/// free of repetitions.
std::vector<RecordTemplate::Key> join_orders(const std::vector<RecordTemplate::Key>& before,
                                             std::span<const RecordTemplate::Key> keys) {
    std::vector<RecordTemplate::Key> joined;
    const auto alone = [&] { return std::vector<RecordTemplate::Key>(keys.begin(), keys.end()); };
    auto at = before.begin();
    std::size_t fresh = 0;
    for (const RecordTemplate::Key& key : keys) {
        const auto is_key = [&](const RecordTemplate::Key& other) {
            return other.in_lists == key.in_lists && other.key == key.key;
        };
        const auto found = std::find_if(at, before.end(), is_key);
        if (found == before.end()) {
            if (++fresh > most_new || std::find_if(before.begin(), at, is_key) != at) return alone();
            joined.push_back(key);
        } else {
            joined.insert(joined.end(), at, found + 1);
            at = found + 1;
        }
    }
    joined.insert(joined.end(), at, before.end());
    const auto is_skipped = [](const RecordTemplate::Key& key) { return key.spec < 0; };
    const bool is_large =
        joined.size() > keys.size() && std::ranges::count_if(joined, is_skipped) > std::ptrdiff_t{most_skipped};
    return is_large ? alone() : joined;
}

bool repeats(std::span<const RecordTemplate::Key> keys) {
    std::vector<std::pair<std::string_view, bool>> sorted;
    sorted.reserve(keys.size());
    for (const RecordTemplate::Key& key : keys) sorted.emplace_back(key.key, key.in_lists);
    std::ranges::sort(sorted);
    return std::ranges::adjacent_find(sorted) != sorted.end();
}

} // namespace

std::shared_ptr<const RecordTemplate> RecordTemplate::learn(const RecordTemplate* before, std::span<const Key> keys,
                                                            std::span<const Spec> specs) {
    const auto is_long = [](const Key& key) { return key.key.size() > longest_key; };
    if (keys.size() > most_keys || std::ranges::any_of(keys, is_long) || repeats(keys)) return nullptr;
    std::vector<Key> joined =
        before == nullptr ? std::vector<Key>(keys.begin(), keys.end()) : join_orders(before->keys_, keys);
    std::ranges::stable_sort(joined, {}, &Key::in_lists);
    auto made = std::make_shared<RecordTemplate>();
    std::vector<bool> has(specs.size());
    for (const Key& key : joined) {
        made->add(key, specs);
        if (key.spec >= 0) has[static_cast<std::size_t>(key.spec)] = true;
    }
    made->features_ = static_cast<std::size_t>(std::ranges::count(joined, false, &Key::in_lists));
    for (std::size_t k = 0; k < specs.size(); ++k)
        if (!has[k]) made->absent_.push_back(static_cast<int>(k));
    made->keys_ = std::move(joined);
    return made->mark_flat(specs) && !made->has_steps(specs) ? made : nullptr;
}

/// Whether a feature list that is not wanted has the name of a feature that is.
bool RecordTemplate::has_steps(std::span<const Spec> specs) const {
    std::unordered_set<std::string_view> lists;
    for (std::size_t at = features_; at < keys_.size(); ++at)
        if (keys_[at].spec < 0) lists.insert(keys_[at].key);
    return !lists.empty() && std::ranges::any_of(specs, [&lists](const Spec& spec) {
        return spec.sole && !spec.list && lists.contains(spec.name);
    });
}

/// Marks feature lists whose name a feature has, too. False if there is no such list.
bool RecordTemplate::mark_flat(std::span<const Spec> specs) {
    std::unordered_map<std::string_view, Entry*> lists; // null: not there
    const auto spec_at = [&specs](int spec) -> const Spec& { return specs[static_cast<std::size_t>(spec)]; };
    for (std::size_t at = features_; at < keys_.size(); ++at)
        if (keys_[at].spec >= 0 && spec_at(keys_[at].spec).sole) lists.emplace(keys_[at].key, &entries_[at]);
    for (const int spec : absent_)
        if (spec_at(spec).sole && spec_at(spec).list) lists.emplace(spec_at(spec).name, nullptr);
    for (std::size_t flat = 0; !lists.empty() && flat < features_; ++flat) {
        const auto list = keys_[flat].spec < 0 ? lists.find(keys_[flat].key) : lists.end();
        if (list == lists.end()) continue;
        if (list->second == nullptr) return false;
        list->second->has_flat = true;
    }
    return true;
}

/// Composes the bytes before empty content. Every length counts all that follows it in the entry.
void RecordTemplate::add(const Key& key, std::span<const Spec> specs) {
    const Spec* const spec = key.spec < 0 ? nullptr : &specs[static_cast<std::size_t>(key.spec)];
    Entry& entry = entries_.emplace_back();
    entry.spec = key.spec;
    entry.content = spec == nullptr ? Content::skipped : content_of(*spec);
    entry.number = static_cast<std::uint32_t>(heads_.size());
    heads_.push_back(head_of(key.key));
    std::string bytes = {'\x0a', '\0'};
    bytes += heads_.back();
    std::vector<std::size_t> lengths = {1, bytes.size()};
    bytes.push_back('\0');
    if (entry.content >= Content::integer) {
        bytes.push_back(static_cast<char>(static_cast<unsigned>(spec->kind) << 3 | 2U));
        lengths.push_back(bytes.size());
        bytes.push_back('\0');
    }
    if (entry.content >= Content::integer && entry.content != Content::texts) {
        bytes.push_back('\x0a');
        lengths.push_back(bytes.size());
        bytes.push_back('\0');
    }
    entry.size = static_cast<std::uint32_t>(bytes.size());
    entry.least_length = bytes.size() - 2;
    entry.first_word = static_cast<std::uint32_t>(words_.size());
    if (bytes.size() < sizeof(Word::bytes)) entry.least_length = SIZE_MAX; // too short to be compared so
    if (entry.least_length > most_length) return;
    std::string ones(bytes.size(), '\0');
    for (const std::size_t at : lengths) bytes[at] = static_cast<char>(bytes.size() - at - 1), ones[at] = 1;
    const auto word_at = [](const std::string& from, std::size_t at) {
        return load_le<std::uint64_t>(reinterpret_cast<const std::byte*>(from.data()) + at);
    };
    const std::size_t last = bytes.size() - sizeof(Word::bytes);
    for (std::size_t at = 0; at < last; at += sizeof(Word::bytes))
        words_.push_back({word_at(bytes, at), word_at(ones, at)});
    words_.push_back({word_at(bytes, last), word_at(ones, last)});
}

bool RecordTemplate::match_key(const Entry& entry, Bytes rest, Bytes& value, std::size_t& size) const noexcept {
    const std::string& expected = heads_[entry.number];
    if (rest.empty() || rest[0] != std::byte{0x0A}) return false;
    Bytes whole = rest.subspan(1);
    if (!proto::take_counted(whole, value)) return false;
    size = rest.size() - whole.size();
    if (value.size() <= expected.size() || std::memcmp(value.data(), expected.data(), expected.size()) != 0)
        return false;
    value = value.subspan(expected.size());
    return proto::strip_length(value);
}

} // namespace headrace::example
