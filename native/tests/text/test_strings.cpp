#include "core/text/strings.hpp"

#include <memory>

#include "check.hpp"
#include "core/checksum/xxhash64.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

const auto pool = std::make_shared<Pool>(std::size_t{1} << 20);

StringBlocks built(const std::vector<std::string>& values, bool in_room = false) {
    StringsBuilder builder(pool, 0, 0);
    for (const std::string& value : values) {
        std::string roomy = value;
        roomy.reserve(value.size() + StringsBuilder::room);
        in_room ? builder.add_in_room(bytes_of(roomy)) : builder.add(bytes_of(value));
    }
    return builder.finish();
}

std::vector<std::string> values_of(const StringsView& strings) {
    std::vector<std::string> out;
    for (std::size_t k = 0; k < strings.count(); ++k) {
        const Bytes value = strings.at(k);
        out.emplace_back(reinterpret_cast<const char*>(value.data()), value.size());
    }
    return out;
}

std::vector<std::string> many() {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < 500; ++i) out.push_back(std::string(i * 7 % 41, static_cast<char>('a' + i % 26)));
    return out;
}

void test_building() {
    check(values_of(built({}).view()).empty());
    check(values_of(built({"", "a", std::string("\0b", 2), ""}).view()) ==
          std::vector<std::string>{"", "a", std::string("\0b", 2), ""});
    check(values_of(built(many()).view()) == many());
    check(values_of(built(many(), true).view()) == many());
    StringsBuilder reserved(pool, 3, 5);
    std::memcpy(reserved.extend(5), "hello", 5);
    check(reserved.count() == 1 && reserved.size() == 5);
    for (int k = 0; k < 40; ++k) { // several values at once, written directly
        const StringsBuilder::Room room = reserved.reserve(2, 100, k == 3 ? 3000 : 0);
        check(room.size == reserved.size());
        std::memset(room.data, 'a' + k % 26, 100 + StringsBuilder::long_room);
        room.offsets[0] = static_cast<std::int64_t>(room.size + 60);
        room.offsets[1] = static_cast<std::int64_t>(room.size + 90);
        reserved.commit(2, 90);
    }
    const std::vector<std::string> found = values_of(reserved.finish().view());
    check(found.size() == 81 && found[0] == "hello" && found[1] == std::string(60, 'a'));
    check(found[80] == std::string(30, 'a' + 39 % 26));
}

void test_joining() {
    std::vector<std::string> all = many();
    for (std::size_t size = 0; size < 40; ++size)
        all.push_back(std::string("0123456789abcdefghijklmnopqrstuvwxyzABCD").substr(0, size));
    std::vector<Bytes> parts;
    for (const std::string& value : all) parts.push_back(bytes_of(value));
    const StringBlocks blocks = join_values(parts, pool);
    check(values_of(blocks.view()) == all && blocks.size == blocks.view().all().size());
    check(values_of(join_values({}, pool).view()).empty());
}

void test_joining_columns() {
    const std::vector<std::string> all = many();
    const StringBlocks blocks = built(all);
    const StringsView whole = blocks.view();
    const auto part = [&whole](std::size_t first, std::size_t stop) {
        return StringsView{whole.data, whole.offsets.subspan(first, stop - first + 1)};
    };
    for (const std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{250}, all.size()}) {
        const std::vector<StringsView> parts = {part(cut, all.size()), part(cut, cut), {}, part(0, cut)};
        std::vector<std::string> expected(all.begin() + static_cast<std::ptrdiff_t>(cut), all.end());
        expected.insert(expected.end(), all.begin(), all.begin() + static_cast<std::ptrdiff_t>(cut));
        const StringBlocks joined = join_strings(parts, pool);
        check(values_of(joined.view()) == expected && joined.count == all.size());
        check(joined.view().offsets.front() == 0 && joined.size == whole.all().size());
    }
    check(join_strings({}, pool).count == 0);
}

void test_taking() {
    const std::vector<std::string> all = many();
    const StringBlocks blocks = built(all);
    std::vector<std::int64_t> indices;
    std::vector<std::string> expected;
    for (std::size_t i = 0; i < 1000; ++i) {
        const std::size_t k = i * 7919 % all.size();
        indices.push_back(i % 3 == 0 ? static_cast<std::int64_t>(k) - static_cast<std::int64_t>(all.size())
                                     : static_cast<std::int64_t>(k));
        expected.push_back(all[k]);
    }
    check(values_of(take_strings(blocks.view(), indices, pool).view()) == expected);
    check(take_strings(blocks.view(), {}, pool).count == 0);
    for (const std::int64_t outside : {std::int64_t{500}, std::int64_t{-501}, INT64_MAX, INT64_MIN}) {
        const std::vector<std::int64_t> some{0, outside};
        const FormatError error = fault_of([&] { (void)take_strings(blocks.view(), some, pool); });
        check(error.fault == Fault::range && error.record == 1);
    }
}

void test_comparing_and_hashing() {
    const std::vector<std::string> all = many();
    const StringBlocks blocks = built(all);
    std::vector<std::string> changed = all;
    changed[7] += "x", changed[200] = "";
    const StringBlocks other = built(changed);
    const std::unique_ptr<bool[]> out(new bool[all.size()]);
    const std::span<bool> equal(out.get(), all.size());
    compare_strings(blocks.view(), other.view(), equal);
    for (std::size_t k = 0; k < all.size(); ++k) check(equal[k] == (all[k] == changed[k]));
    compare_strings(blocks.view(), bytes_of(all[3]), equal);
    for (std::size_t k = 0; k < all.size(); ++k) check(equal[k] == (all[k] == all[3]));
    std::vector<std::int64_t> hashes(all.size());
    hash_strings(blocks.view(), 5, 1000, hashes);
    for (std::size_t k = 0; k < all.size(); ++k)
        check(hashes[k] == static_cast<std::int64_t>(xxhash64(bytes_of(all[k]), 5) % 1000));
}

void test_checking_text() {
    const std::string umlaut = "\xc3\xbc";
    check(!first_not_utf8(built({}).view()));
    check(!first_not_utf8(built({"a", umlaut, ""}).view()));
    check(first_not_utf8(built({"a", umlaut, "\xff"}).view()) == 2);
    // A character must not be divided between values.
    check(first_not_utf8(built({umlaut.substr(0, 1), umlaut.substr(1)}).view()) == 0);
}

void test_hostile_offsets() {
    const std::vector<std::byte> data(10);
    const std::vector<std::vector<std::int64_t>> bad{{0, 11},        {-1, 5},        {5, 4},
                                                     {0, INT64_MAX}, {INT64_MIN, 0}, {11, 11}};
    for (const auto& offsets : bad) {
        const StringsView view{data, offsets};
        check(first_outside(view.offsets, data.size()) == 0);
        const std::vector<std::int64_t> zero{0};
        std::int64_t hash = 0;
        bool same = false;
        check(fault_of([&] { (void)take_strings(view, zero, pool); }).fault == Fault::range);
        check(fault_of([&] { compare_strings(view, view, {&same, 1}); }).fault == Fault::range);
        check(fault_of([&] { compare_strings(view, Bytes{}, {&same, 1}); }).fault == Fault::range);
        check(fault_of([&] { hash_strings(view, 0, 1, {&hash, 1}); }).fault == Fault::range);
        check(fault_of([&] { (void)first_not_utf8(view); }).fault == Fault::range);
        const std::vector<StringsView> views = {view};
        check(fault_of([&] { (void)join_strings(views, pool); }).fault == Fault::range);
    }
    const std::vector<std::int64_t> later{0, 4, 3, 10}, above{3, 3, 10};
    check(first_outside(later, data.size()) == 1);
    check(!first_outside(above, data.size()));
    check(!first_outside({}, 0));
}

} // namespace

int main() {
    test_building();
    test_joining();
    test_joining_columns();
    test_taking();
    test_comparing_and_hashing();
    test_checking_text();
    test_hostile_offsets();
}
