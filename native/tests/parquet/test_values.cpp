#include "core/parquet/values.hpp"

#include <algorithm>

#include "check.hpp"

using namespace headrace;
using namespace headrace::parquet;
using namespace headrace::testing;

namespace {

using Buffer = std::vector<std::byte>;
using Codes = std::vector<std::uint32_t>;

const std::shared_ptr<Pool> pool = std::make_shared<Pool>(1 << 20);

constexpr std::array forms = {ValueForm{8, 8}, ValueForm{4, 4}, ValueForm{4, 2}, ValueForm{4, 1}};

// `count` numbers of `size` bytes.
Buffer numbers_of(std::size_t count, std::size_t size) {
    Buffer bytes(count * size);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
    return bytes;
}

// What a column of these numbers becomes.
Buffer narrow(const Buffer& stored, const ValueForm& form) {
    Buffer bytes;
    for (std::size_t at = 0; at < stored.size(); at += form.stored)
        for (std::size_t i = 0; i < form.wanted; ++i) bytes.push_back(stored[at + i]);
    return bytes;
}

Dictionary dictionary_of(const Buffer& bytes, std::size_t count, const ValueForm& form) {
    Pool::Block block = pool->take(bytes.size() + page_slack);
    if (!bytes.empty()) std::memcpy(block.data(), bytes.data(), bytes.size());
    return {std::move(block), bytes.size(), count, form};
}

void put_text(Buffer& to, std::string_view text) {
    for (unsigned i = 0; i < 4; ++i) to.push_back(static_cast<std::byte>(text.size() >> 8 * i));
    to.insert(to.end(), bytes_of(text).begin(), bytes_of(text).end());
}

std::vector<std::string> texts_of(StringsBuilder& builder) {
    const StringBlocks blocks = builder.finish();
    std::vector<std::string> found;
    for (std::size_t i = 0; i < blocks.count; ++i) {
        const Bytes text = blocks.view().at(i);
        found.emplace_back(reinterpret_cast<const char*>(text.data()), text.size());
    }
    return found;
}

// Texts of every size around those that are copied in another way.
std::vector<std::string> samples() {
    std::vector<std::string> texts;
    for (std::size_t size : {0, 1, 15, 16, 17, 63, 64, 65, 66, 300, 5000})
        texts.emplace_back(size, static_cast<char>('a' + texts.size()));
    return texts;
}

void test_numbers() {
    for (const ValueForm& form : forms)
        for (const std::size_t count : {1, 7, 300}) {
            const Buffer stored = numbers_of(count, form.stored);
            Buffer found(count * form.wanted);
            write_plain(stored.data(), count, form, found.data());
            check(found == narrow(stored, form));
            const Dictionary dictionary = dictionary_of(stored, count, form);
            Codes codes;
            for (std::size_t i = 0; i < count; ++i) codes.push_back(static_cast<std::uint32_t>((i * 5 + 1) % count));
            Buffer picked;
            for (const std::uint32_t code : codes)
                picked.insert(picked.end(), stored.begin() + static_cast<std::ptrdiff_t>(code * form.stored),
                              stored.begin() + static_cast<std::ptrdiff_t>((code + 1) * form.stored));
            dictionary.write(codes, found.data());
            check(found == narrow(picked, form));
        }
}

void test_texts() {
    const std::vector<std::string> texts = samples();
    Buffer stored, twice;
    Codes codes;
    for (const std::string& text : texts) put_text(stored, text);
    std::vector<std::string> wanted;
    for (std::size_t i = 0; i < 1000; ++i) {
        codes.push_back(static_cast<std::uint32_t>(i * i % texts.size()));
        wanted.push_back(texts[codes.back()]);
        put_text(twice, wanted.back());
    }
    StringsBuilder coded(pool, 0, 0), plain(pool, 1000, 10);
    const Dictionary dictionary = dictionary_of(stored, texts.size(), {});
    dictionary.add(std::span(codes).first(300), coded);
    dictionary.add({}, coded);
    dictionary.add(std::span(codes).subspan(300), coded);
    check(texts_of(coded) == wanted);
    const std::size_t size = twice.size();
    twice.resize(size + page_slack);
    Bytes left(twice.data(), size);
    for (const std::size_t some : {0, 1, 255, 256, 257, 231}) add_plain(left, some, plain);
    check(left.empty() && texts_of(plain) == wanted);
}

void test_faults() {
    for (const ValueForm& form : forms) {
        const Buffer stored = numbers_of(3, form.stored);
        check(fault_of([&] { (void)dictionary_of(stored, 4, form); }).fault == Fault::structure);
        check(fault_of([&] { (void)dictionary_of(stored, INT32_MAX, form); }).fault == Fault::structure);
        check(fault_of([&] { (void)dictionary_of(stored, SIZE_MAX, form); }).fault == Fault::structure);
        const Dictionary dictionary = dictionary_of(stored, 3, form);
        Buffer to(4 * form.wanted, std::byte{1});
        for (const std::uint32_t code : {3U, 4U, UINT32_MAX})
            check(fault_of([&] { dictionary.write(Codes{0, code, 1}, to.data()); }).fault == Fault::structure);
        check(to == Buffer(4 * form.wanted, std::byte{1}));
    }
    Buffer stored;
    for (const std::string_view text : {"ab", "", "c"}) put_text(stored, text);
    check(fault_of([&] { (void)dictionary_of(stored, 4, {}); }).fault == Fault::structure);
    check(fault_of([&] { (void)dictionary_of(stored, INT32_MAX, {}); }).fault == Fault::structure);
    const Dictionary dictionary = dictionary_of(stored, 3, {});
    StringsBuilder builder(pool, 0, 0);
    check(fault_of([&] { dictionary.add(Codes{3}, builder); }).fault == Fault::structure);
    check(fault_of([&] { dictionary_of({}, 0, {}).add(Codes{0}, builder); }).fault == Fault::structure);
    const std::size_t size = stored.size();
    for (std::size_t end = 0; end < size; ++end) { // every truncation
        Buffer part(stored.begin(), stored.begin() + static_cast<std::ptrdiff_t>(end));
        check(fault_of([&] { (void)dictionary_of(part, 3, {}); }).fault == Fault::structure);
        part.resize(end + page_slack, std::byte{0});
        Bytes left(part.data(), end);
        check(fault_of([&] { add_plain(left, 3, builder); }).fault == Fault::structure);
    }
    for (std::size_t at : {0, 6, 10}) // lengths of 2^31 and more
        for (const unsigned high : {0x7FU, 0x80U, 0xFFU}) {
            Buffer changed = stored;
            changed[at + 3] = static_cast<std::byte>(high);
            check(fault_of([&] { (void)dictionary_of(changed, 3, {}); }).fault == Fault::structure);
            changed.resize(size + page_slack);
            Bytes left(changed.data(), size);
            check(fault_of([&] { add_plain(left, 3, builder); }).fault == Fault::structure);
        }
}

template <typename Number> void test_spread() {
    const Number fill = 99;
    for (unsigned nulls = 0; nulls < 64; ++nulls) { // each bit: whether one of six is null
        std::vector<std::uint32_t> places;
        std::vector<Number> numbers, wanted;
        for (unsigned i = 0; i < 6; ++i) {
            const bool is_null = (nulls >> i & 1) != 0;
            if (is_null) places.push_back(1000 + i);
            else numbers.push_back(static_cast<Number>(i + 1));
            wanted.push_back(is_null ? fill : static_cast<Number>(i + 1));
        }
        numbers.insert(numbers.begin(), places.size(), Number{0});
        const auto bytes = std::as_writable_bytes(std::span(numbers));
        spread(bytes.data(), places, 1000, std::as_bytes(std::span(&fill, 1)));
        check(numbers == wanted);
    }
}

} // namespace

int main() {
    test_spread<std::uint8_t>();
    test_spread<std::uint16_t>();
    test_spread<std::uint32_t>();
    test_spread<std::uint64_t>();
    test_numbers();
    test_texts();
    test_faults();
}
