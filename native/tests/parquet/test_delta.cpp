#include "core/parquet/delta.hpp"

#include <algorithm>
#include <random>

#include "parquet/made_bytes.hpp"

using namespace headrace;
using namespace headrace::parquet;
using namespace headrace::testing;

namespace {

using Buffer = std::vector<std::byte>;
using Numbers = std::vector<std::uint64_t>;
using Texts = std::vector<std::string>;

constexpr std::size_t slack = 64;

void put_zigzag(Buffer& to, std::uint64_t value, unsigned bits) {
    const auto sign = static_cast<std::int64_t>(value << (64 - bits)) >> 63;
    const std::uint64_t mask = ~std::uint64_t{0} >> (64 - bits);
    put_varint(to, (value << 1 ^ static_cast<std::uint64_t>(sign)) & mask);
}

// How numbers are cut.
struct Layout {
    unsigned bits = 64;
    std::size_t in_block = 128, miniblocks = 4;
};

std::uint64_t low_bits(std::uint64_t value, unsigned bits) { return value & ~std::uint64_t{0} >> (64 - bits); }

// One bit after another: a plain encoder. Differences wrap, and the least one counts as signed, as writers do it.
Buffer encode(const Numbers& numbers, const Layout& layout) {
    Buffer bytes;
    put_varint(bytes, layout.in_block);
    put_varint(bytes, layout.miniblocks);
    put_varint(bytes, numbers.size());
    put_zigzag(bytes, numbers.empty() ? 0 : numbers[0], layout.bits);
    const auto as_signed = [&](std::uint64_t value) {
        return static_cast<std::int64_t>(value << (64 - layout.bits)) >> (64 - layout.bits);
    };
    for (std::size_t begin = 1; begin < numbers.size(); begin += layout.in_block) {
        const std::size_t end = std::min(numbers.size(), begin + layout.in_block);
        Numbers differences;
        for (std::size_t i = begin; i < end; ++i) differences.push_back(numbers[i] - numbers[i - 1]);
        const std::uint64_t least = *std::min_element(differences.begin(), differences.end(),
                                                      [&](auto a, auto b) { return as_signed(a) < as_signed(b); });
        for (std::uint64_t& difference : differences) difference = low_bits(difference - least, layout.bits);
        put_zigzag(bytes, least, layout.bits);
        const std::size_t each = layout.in_block / layout.miniblocks, widths = bytes.size();
        bytes.resize(widths + layout.miniblocks);
        for (std::size_t mini = 0; mini * each < differences.size(); ++mini) {
            const std::size_t first = mini * each, last = std::min(differences.size(), first + each);
            std::uint64_t all = 0;
            for (std::size_t i = first; i < last; ++i) all |= differences[i];
            const auto width = static_cast<unsigned>(std::bit_width(all));
            bytes[widths + mini] = static_cast<std::byte>(width);
            const std::size_t at = bytes.size();
            bytes.resize(at + each / 8 * width);
            for (std::size_t i = first; i < last; ++i)
                for (unsigned bit = 0; bit < width; ++bit) {
                    const std::size_t place = (i - first) * width + bit;
                    bytes[at + place / 8] |= static_cast<std::byte>((differences[i] >> bit & 1) << place % 8);
                }
        }
    }
    return bytes;
}

// All numbers, up to `most` at a time, and what is behind them; nothing if they are refused.
std::optional<std::pair<Numbers, std::size_t>> decode(const Buffer& bytes, std::uint64_t count, const Layout& layout,
                                                      std::size_t most) {
    const WithSlack held(bytes, slack);
    try {
        DeltaReader reader(held.bytes(), count, layout.bits);
        const std::size_t rest = reader.rest().size();
        Numbers found;
        while (found.size() < count) {
            check(reader.left() == count - found.size() && reader.rest().size() == rest);
            const auto some = reader.take(most);
            check(!some.empty() && some.size() <= most);
            for (const std::uint64_t number : some) found.push_back(low_bits(number, layout.bits));
        }
        return std::pair{found, rest};
    } catch (const FormatError& error) {
        check(error.fault == Fault::structure || error.fault == Fault::truncated || error.fault == Fault::wire);
        return std::nullopt;
    }
}

constexpr Layout layouts[] = {{64, 128, 4}, {32, 128, 4}, {64, 256, 8}, {32, 2048, 8}, {64, 128, 1}, {32, 384, 3}};

Numbers random_numbers(std::mt19937_64& random, std::size_t count, unsigned width, unsigned bits) {
    Numbers numbers;
    for (std::size_t i = 0; i < count; ++i)
        numbers.push_back(low_bits(width == 0 ? 7 : random() >> (64 - width), bits));
    return numbers;
}

void test_numbers() {
    std::mt19937_64 random(1);
    for (const Layout& layout : layouts)
        for (unsigned width = 0; width <= layout.bits; ++width)
            for (const std::size_t count : {0, 1, 2, 33, 128, 129, 130, 1000}) {
                const Numbers numbers = random_numbers(random, count, width, layout.bits);
                Buffer bytes = encode(numbers, layout);
                for (const std::size_t most : {1, 7, 32, 1000})
                    check(decode(bytes, count, layout, most) == std::pair(numbers, std::size_t{0}));
                bytes.resize(bytes.size() + 5); // of something else
                check(decode(bytes, count, layout, 32) == std::pair(numbers, std::size_t{5}));
            }
    // Differences that wrap.
    for (const Layout& layout : layouts) {
        Numbers numbers;
        const std::uint64_t least = std::uint64_t{1} << (layout.bits - 1);
        for (std::size_t i = 0; i < 100; ++i) numbers.push_back(i % 2 == 0 ? least - 1 : least + i);
        check(decode(encode(numbers, layout), 100, layout, 32) == std::pair(numbers, std::size_t{0}));
    }
}

void test_damaged_numbers() {
    std::mt19937_64 random(2);
    for (const Layout& layout : layouts) {
        const Buffer sound = encode(random_numbers(random, 200, 9, layout.bits), layout);
        for (std::size_t size = 0; size < sound.size(); ++size)
            check(!decode({sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(size)}, 200, layout, 32));
        for (std::size_t at = 0; at < sound.size(); ++at)
            for (unsigned bit = 0; bit < 8; ++bit) {
                Buffer changed = sound;
                changed[at] ^= static_cast<std::byte>(1 << bit);
                check(decode(changed, 200, layout, 1) == decode(changed, 200, layout, 32));
            }
        check(!decode(sound, 199, layout, 32) && !decode(sound, 201, layout, 32)); // another count
    }
    const auto refused = [](std::string_view hex, std::uint64_t count, unsigned bits) {
        return !decode(from_hex(hex), count, {bits}, 32);
    };
    check(!refused("8001 04 01 0e", 1, 32));
    check(refused("00 04 01 0e", 1, 32) && refused("8001 00 01 0e", 1, 32));     // nothing in a block
    check(refused("40 02 01 0e", 1, 32) && refused("8001 08 01 0e", 1, 32));     // not whole groups of 32
    check(refused("8001 03 01 0e", 1, 32));                                      // not as many in each
    check(refused("8080808010 04 01 0e", 1, 32));                                // 2^32
    check(refused("8001 04 01 8080808010", 1, 32));                              // a number of 33 bits
    check(!refused("8001 04 01 8080808010", 1, 64));                             //
    check(!refused("8001 04 02 0e 00 00000000", 2, 32));                         // of no bits
    check(refused("8001 04 02 0e 00 21000000" + std::string(264, '0'), 2, 32));  // of 33
    check(!refused("8001 04 02 0e 00 21000000" + std::string(264, '0'), 2, 64)); //
    check(refused("8001 04 02 0e 00 41000000" + std::string(520, '0'), 2, 64));  // of 65
    check(!refused("8001 04 02 0e 00 00ffffff", 2, 64));                         // in a miniblock that is not there
    check(refused("8001 04 02 0e 00 01000000 000000", 2, 64));                   // without its padding
    check(fault_of([] {
              (void)DeltaReader(WithSlack(from_hex("8001 04 00 00"), slack).bytes(), 0, 32).take(1);
          }).fault == Fault::structure); // more than there are
}

std::string random_text(std::mt19937_64& random) {
    std::string text;
    constexpr std::size_t sizes[] = {0, 1, 5, 16, 17, 64, 65, 300};
    for (std::size_t size = sizes[random() % std::size(sizes)]; size > 0; --size)
        text.push_back(static_cast<char>('a' + random() % 3));
    return text;
}

Buffer encode_texts(const Texts& texts, bool shares_prefixes, const Layout& layout) {
    Numbers prefixes, lengths;
    std::string content, last;
    for (const std::string& text : texts) {
        std::size_t shared = 0;
        while (shares_prefixes && shared < std::min(text.size(), last.size()) && text[shared] == last[shared]) ++shared;
        prefixes.push_back(shared);
        lengths.push_back(text.size() - shared);
        content += text.substr(shared);
        last = text;
    }
    Buffer bytes;
    if (shares_prefixes) bytes = encode(prefixes, layout);
    const Buffer more = encode(lengths, layout);
    bytes.insert(bytes.end(), more.begin(), more.end());
    bytes.insert(bytes.end(), bytes_of(content).begin(), bytes_of(content).end());
    return bytes;
}

std::optional<Texts> decode_texts(const Buffer& bytes, std::size_t count, bool shares_prefixes, std::size_t most,
                                  std::uint64_t most_bytes = 1 << 20) {
    const WithSlack held(bytes, slack);
    StringsBuilder builder(std::make_shared<Pool>(1 << 20), 0, 0);
    try {
        DeltaTexts reader(held.bytes(), count, shares_prefixes, most_bytes);
        for (std::size_t left = count; left > 0;) {
            const std::size_t some = std::min(left, most);
            reader.add(some, builder);
            left -= some;
        }
    } catch (const FormatError& error) {
        check(error.fault == Fault::structure || error.fault == Fault::truncated || error.fault == Fault::wire);
        return std::nullopt;
    }
    const StringBlocks blocks = builder.finish();
    Texts found;
    for (std::size_t i = 0; i < blocks.count; ++i) {
        const Bytes text = blocks.view().at(i);
        found.emplace_back(reinterpret_cast<const char*>(text.data()), text.size());
    }
    return found;
}

void test_texts() {
    std::mt19937_64 random(3);
    for (const bool shares_prefixes : {false, true})
        for (const std::size_t count : {1, 2, 40, 300}) {
            Texts texts;
            for (std::size_t i = 0; i < count; ++i) texts.push_back(random_text(random));
            if (random() % 2 == 0) std::sort(texts.begin(), texts.end());
            Buffer bytes = encode_texts(texts, shares_prefixes, {32});
            for (const std::size_t most : {1, 7, 1000})
                check(decode_texts(bytes, count, shares_prefixes, most) == texts);
            for (std::size_t at = 0; at < bytes.size(); at += 1 + bytes.size() / 500) {
                Buffer changed = bytes;
                changed[at] ^= static_cast<std::byte>(1U << random() % 8);
                check(decode_texts(changed, count, shares_prefixes, 1) ==
                      decode_texts(changed, count, shares_prefixes, 1000));
                changed.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
                check(!decode_texts(changed, count, shares_prefixes, 7));
            }
            bytes.push_back(std::byte{0}); // behind the last text
            check(!decode_texts(bytes, count, shares_prefixes, 7));
        }
}

void test_lengths() {
    const auto texts_of = [](const Numbers& prefixes, const Numbers& lengths, std::string_view content) {
        Buffer bytes = prefixes.empty() ? Buffer{} : encode(prefixes, {32});
        const Buffer more = encode(lengths, {32});
        bytes.insert(bytes.end(), more.begin(), more.end());
        bytes.insert(bytes.end(), bytes_of(content).begin(), bytes_of(content).end());
        return decode_texts(bytes, lengths.size(), !prefixes.empty(), 10);
    };
    constexpr std::uint64_t negative = 0xFFFFFFFF;
    check(texts_of({}, {1, 0, 2}, "abc") == Texts{"a", "", "bc"});
    check(!texts_of({}, {1, 3}, "abc") && !texts_of({}, {2, negative, 2}, "abc") && !texts_of({}, {negative}, ""));
    check(texts_of({0, 2, 1}, {2, 1, 0}, "abc") == Texts{"ab", "abc", "a"});
    check(!texts_of({1}, {1}, "a") && !texts_of({0, 3}, {2, 0}, "ab") && !texts_of({0, negative}, {2, 0}, "ab"));
    check(!texts_of({0}, {negative}, "") && !texts_of({0, 1}, {1, 2}, "ab"));
    check(!texts_of({0, 0}, {1}, "a")); // not as many of both
    // Texts that share much become many more bytes than the page has.
    Numbers shared(1000, 50), more(1000, 0);
    shared[0] = 0;
    more[0] = 50;
    Buffer bytes = encode(shared, {32}), lengths = encode(more, {32});
    bytes.insert(bytes.end(), lengths.begin(), lengths.end());
    bytes.resize(bytes.size() + 50, std::byte{'x'});
    check(decode_texts(bytes, 1000, true, 7, 50'000) == Texts(1000, std::string(50, 'x')));
    check(!decode_texts(bytes, 1000, true, 7, 49'999));
}

} // namespace

int main() {
    test_numbers();
    test_damaged_numbers();
    test_texts();
    test_lengths();
}
