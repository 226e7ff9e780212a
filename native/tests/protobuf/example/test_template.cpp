#include "core/protobuf/example/template.hpp"

#include <algorithm>

#include "check.hpp"
#include "protobuf/example/samples.hpp"

using namespace headrace;
using namespace headrace::testing;
using example::Kind;
using example::RecordTemplate;
using Content = RecordTemplate::Content;
using Key = RecordTemplate::Key;

namespace {

const std::vector<example::Spec> specs = {
    spec("integer", Kind::int64, 1), spec("floats", Kind::float32, 2),    spec("run", Kind::int64, -1),
    spec("some", Kind::float32, -1), spec("text", Kind::bytes, 1),        spec("texts", Kind::bytes, -1),
    spec("value", Kind::number, 1),  spec("steps", Kind::int64, 1, true),
};

std::vector<Key> all_keys() {
    std::vector<Key> keys = {{"skipped", false, -1}};
    for (std::size_t k = 0; k < specs.size(); ++k) keys.push_back({specs[k].name, specs[k].list, static_cast<int>(k)});
    return keys;
}

/// An entry whose content has this many bytes.
std::string entry_of(const std::string& key, Content content, const std::string& bytes) {
    switch (content) {
    case Content::skipped:
    case Content::steps:
    case Content::value: return entry(key, bytes);
    case Content::integer: return entry(key, field(3, field(1, bytes)));
    case Content::floats: return entry(key, field(2, field(1, bytes)));
    case Content::run: return entry(key, field(key == "run" ? 3 : 2, field(1, bytes)));
    case Content::text: return entry(key, field(1, field(1, bytes)));
    case Content::texts: return entry(key, field(1, bytes));
    }
    return {};
}

bool is(Bytes bytes, std::string_view text) { return std::ranges::equal(bytes, bytes_of(text)); }

void test_entries_of_every_type_and_length() {
    const auto usual = RecordTemplate::learn(nullptr, all_keys(), specs);
    check(usual->entries(false).size() == 8 && usual->entries(true).size() == 1 && usual->absent().empty());
    std::size_t number = 0;
    for (const bool in_lists : {false, true})
        for (const RecordTemplate::Entry& known : usual->entries(in_lists)) {
            const std::string name = all_keys()[number++].key;
            check(known.content == static_cast<Content>(number == 9   ? 1
                                                        : number == 1 ? 0
                                                        : number == 2 ? 3
                                                        : number == 3 ? 4
                                                        : number <= 5 ? 5
                                                        : number == 6 ? 6
                                                        : number == 7 ? 7
                                                                      : 2));
            std::size_t matched = 0;
            for (std::size_t size = 0; size < 200; ++size) {
                const std::string text(size, 'x'), whole = entry_of(name, known.content, text), two = whole + whole;
                const Bytes bytes = bytes_of(std::string_view(two));
                Bytes content, value;
                std::size_t entry_size = 0;
                const bool matches = usual->match(known, bytes, content);
                check(matches == (whole.size() <= 0x81));
                if (matches) check(is(content, text) && content.data() + size == bytes.data() + whole.size());
                matched += matches ? 1U : 0U;
                check(usual->match(known, bytes.first(whole.size()), content) == matches);
                check(!usual->match(known, bytes.first(whole.size() - 1), content));
                check(usual->match_key(known, bytes, value, entry_size) && entry_size == whole.size());
                check(value.data() + value.size() == bytes.data() + whole.size());
                check(!usual->match_key(known, bytes.first(whole.size() - 1), value, entry_size));
                for (std::size_t at = 0; matches && at < whole.size() - size; ++at) { // Every byte before it counts.
                    std::string other = whole;
                    other[at] ^= 1;
                    check(!usual->match(known, bytes_of(std::string_view(other)), content));
                }
            }
            check(matched > 90);
        }
}

void test_keys_of_every_length() {
    for (std::size_t size = 0; size < 140; ++size) {
        const std::string key(size, 'k');
        const std::vector<example::Spec> one = {spec(key, Kind::float32, 1)};
        const auto usual = RecordTemplate::learn(nullptr, std::vector<Key>{{key, false, 0}}, one);
        const std::string whole = entry(key, floats({1}));
        Bytes content, value;
        std::size_t entry_size = 0;
        const Bytes bytes = bytes_of(std::string_view(whole));
        check(usual->match(usual->entries(false)[0], bytes, content) == (whole.size() <= 0x81));
        check(usual->match_key(usual->entries(false)[0], bytes, value, entry_size) && entry_size == whole.size());
        check(!usual->match(usual->entries(false)[0], {}, content));
    }
    const std::vector<Key> skipped = {{"", false, -1}}; // too short to be compared by words
    const auto usual = RecordTemplate::learn(nullptr, skipped, {});
    const std::string whole = entry("", "");
    Bytes content;
    std::size_t entry_size = 0;
    check(!usual->match(usual->entries(false)[0], bytes_of(std::string_view(whole)), content));
    check(usual->match_key(usual->entries(false)[0], bytes_of(std::string_view(whole)), content, entry_size));
    const std::vector<Key> endless = {{std::string(2000, 'k'), false, -1}};
    check(RecordTemplate::learn(nullptr, endless, {}) == nullptr);
}

/// Keys of one letter each; capitals were not requested.
std::vector<Key> keys_of(std::string_view letters) {
    std::vector<Key> keys;
    for (const char letter : letters) keys.push_back({std::string(1, letter), false, letter < 'a' ? -1 : letter - 'a'});
    return keys;
}

std::string order_of(const RecordTemplate& known) {
    std::string letters;
    for (const RecordTemplate::Entry& one : known.entries(false))
        letters.push_back(one.spec < 0 ? '-' : static_cast<char>('a' + one.spec));
    return letters;
}

void orders_are_joined() {
    std::vector<example::Spec> letters;
    for (const char letter : std::string_view("abcdef")) letters.push_back(spec({letter}, Kind::int64, 1));
    const auto joined = [&](std::string_view before, std::string_view keys) {
        const auto known = RecordTemplate::learn(nullptr, keys_of(before), letters);
        return order_of(*RecordTemplate::learn(known.get(), keys_of(keys), letters));
    };
    check(joined("abc", "abc") == "abc" && joined("ac", "abc") == "abc" && joined("abc", "ac") == "abc");
    check(joined("ab", "cab") == "cab" && joined("ab", "abc") == "abc" && joined("", "ab") == "ab");
    check(joined("abX", "aYb") == "a-b-" && joined("ab", "") == "ab");
    check(joined("abc", "cab") == "cab" && joined("abc", "ba") == "ba"); // another order
    const auto known = RecordTemplate::learn(nullptr, keys_of("cea"), letters);
    check(known->absent() == std::vector<int>{1, 3, 5});
    check(RecordTemplate::learn(known.get(), keys_of("aba"), letters) == nullptr);
}

void keys_that_were_not_requested_are_bounded() {
    std::shared_ptr<const RecordTemplate> usual;
    std::size_t most = 0;
    for (int round = 0; round < 300; ++round) {
        const std::vector<Key> keys = {{"same", false, -1}, {"key " + std::to_string(round), false, -1}};
        usual = RecordTemplate::learn(usual.get(), keys, {});
        most = std::max(most, usual->entries(false).size());
    }
    check(most == 64);
    std::vector<Key> many;
    for (int k = 0; k < 5000; ++k) many.push_back({std::to_string(k), false, -1});
    check(RecordTemplate::learn(nullptr, many, {}) == nullptr);
    many.resize(4096);
    usual = RecordTemplate::learn(usual.get(), many, {});
    check(usual->entries(false).size() == 4096);
}

void features_with_the_name_of_a_list_are_marked() {
    example::Spec list = spec("i", example::Kind::int64, -1, true);
    const std::vector<Key> both = {{"i", false, -1}, {"j", false, -1}, {"i", true, 0}};
    const std::vector<Key> alone = {{"i", false, -1}};
    for (const bool sole : {false, true}) {
        list.sole = sole;
        const auto made = RecordTemplate::learn(nullptr, both, {&list, 1});
        check(made != nullptr && made->entries(true)[0].has_flat == sole);
        check((RecordTemplate::learn(nullptr, alone, {&list, 1}) == nullptr) == sole);
        check(RecordTemplate::learn(nullptr, std::span(both).subspan(1), {&list, 1}) != nullptr);
    }
    example::Spec feature = spec("i", example::Kind::int64, -1);
    const std::vector<Key> steps = {{"i", false, 0}, {"i", true, -1}};
    for (const bool sole : {false, true}) {
        feature.sole = sole;
        check((RecordTemplate::learn(nullptr, steps, {&feature, 1}) == nullptr) == sole);
        check(RecordTemplate::learn(nullptr, std::span(steps).first(1), {&feature, 1}) != nullptr);
    }
}

} // namespace

int main() {
    features_with_the_name_of_a_list_are_marked();
    test_entries_of_every_type_and_length();
    test_keys_of_every_length();
    orders_are_joined();
    keys_that_were_not_requested_are_bounded();
}
