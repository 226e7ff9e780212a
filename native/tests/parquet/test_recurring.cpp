#include "core/parquet/recurring.hpp"

#include "parquet/column_rows.hpp"
#include "parquet/made_bytes.hpp"

using namespace headrace;
using namespace headrace::parquet;
using namespace headrace::testing;

namespace {

std::shared_ptr<const Dictionary> dictionary_of(const std::shared_ptr<Pool>& pool, const Texts& texts) {
    Buffer bytes;
    for (const std::string& text : texts) {
        const std::size_t at = bytes.size();
        bytes.resize(at + sizeof(std::uint32_t));
        store_le(bytes.data() + at, static_cast<std::uint32_t>(text.size()));
        for (const char byte : text) bytes.push_back(static_cast<std::byte>(byte));
    }
    Pool::Block page = pool->take(bytes.size() + page_slack);
    if (!bytes.empty()) std::memcpy(page.data(), bytes.data(), bytes.size());
    return std::make_shared<const Dictionary>(std::move(page), bytes.size(), texts.size(), ValueForm{0, 0});
}

Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

Texts list(const StringBlocks& blocks) {
    Texts found;
    for (std::size_t i = 0; i < blocks.count; ++i) {
        const Bytes text = blocks.view().at(i);
        found.emplace_back(reinterpret_cast<const char*>(text.data()), text.size());
    }
    return found;
}

Texts list(RecurringTexts& texts, std::size_t count) {
    const Texts once = list(texts.finish());
    const Pool::Block codes = texts.take_codes();
    Texts found;
    for (std::size_t i = 0; i < count; ++i)
        found.push_back(once.at(load_le<std::uint32_t>(codes.data() + i * sizeof(std::uint32_t))));
    return found;
}

// Codes of two dictionaries in turns, and texts between them.
template <typename To> void add_some(To& to, const std::shared_ptr<Pool>& pool) {
    const auto first = dictionary_of(pool, {"one", "", "three"}), second = dictionary_of(pool, {"three", "two"});
    to.add_codes(std::array<std::uint32_t, 4>{2, 0, 2, 1}, first);
    to.add(bytes_of("fill"));
    to.add_codes(std::array<std::uint32_t, 3>{1, 1, 0}, second);
    to.add_codes(std::array<std::uint32_t, 2>{2, 0}, first);
    const Buffer plain{std::byte{2}, {}, {}, {}, std::byte{'a'}, std::byte{'b'}, {}, {}, {}, {}};
    const WithSlack room(plain, page_slack);
    Bytes from = room.bytes();
    to.add_plain(from, 2);
    check(from.empty());
}

const Texts some = {"three", "one", "three", "", "fill", "two", "two", "three", "three", "one", "ab", ""};

void test_values(const std::shared_ptr<Pool>& pool) {
    AllTexts all(StringsBuilder(pool, 0, 0));
    add_some(all, pool);
    check(list(all.finish()) == some);
    RecurringTexts recurring(pool, some.size(), {});
    add_some(recurring, pool);
    check(list(recurring, some.size()) == some);
    RecurringTexts written(pool, some.size(), {});
    add_some(written, pool);
    check(list(written.write_out()) == some);
}

void test_each_is_kept_once(const std::shared_ptr<Pool>& pool) {
    const auto texts = dictionary_of(pool, {"unused", std::string(1000, 'x'), "y"});
    RecurringTexts recurring(pool, 8000, {});
    for (int i = 0; i < 4000; ++i) recurring.add_codes(std::array<std::uint32_t, 2>{1, 2}, texts);
    check(!recurring.is_worth_it()); // 4,004,000 bytes in all, less than 4 MiB
    RecurringTexts more(pool, 9000, {});
    for (int i = 0; i < 4500; ++i) more.add_codes(std::array<std::uint32_t, 2>{1, 2}, texts);
    check(more.is_worth_it());
    check(list(more.finish()) == Texts{std::string(1000, 'x'), "y"});
}

void test_limits(const std::shared_ptr<Pool>& pool) {
    const auto texts = dictionary_of(pool, {std::string(300, 'x'), std::string(200, 'y')});
    const auto is_worth_it = [&](std::uint32_t code, const RecurringLimits& limits) {
        RecurringTexts recurring(pool, 100, limits);
        for (int i = 0; i < 100; ++i) recurring.add_codes(std::array{code}, texts);
        return recurring.is_worth_it();
    };
    check(is_worth_it(0, {30'000, 256, 8}) && !is_worth_it(0, {30'001, 256, 8}));
    check(!is_worth_it(1, {0, 256, 8}) && is_worth_it(1, {0, 200, 8}));
    check(!is_worth_it(0, {0, 0, 100})); // 708 bytes instead of 30,000
    check(is_worth_it(1, {30'000, 256, 8, 19'999}) && !is_worth_it(1, {30'000, 256, 8, 20'000}));
}

void test_codes_without_a_text(const std::shared_ptr<Pool>& pool) {
    const auto texts = dictionary_of(pool, {"a", "b"});
    RecurringTexts recurring(pool, 3, {});
    try {
        recurring.add_codes(std::array<std::uint32_t, 3>{0, 1, 2}, texts);
        check(false);
    } catch (const FormatError& error) {
        check(error.fault == Fault::structure);
    }
    check(list(recurring, 0).empty());
}

} // namespace

int main() {
    const auto pool = std::make_shared<Pool>(idle_limit);
    test_values(pool);
    test_each_is_kept_once(pool);
    test_limits(pool);
    test_codes_without_a_text(pool);
    check(pool->stats().used_bytes == 0);
}
