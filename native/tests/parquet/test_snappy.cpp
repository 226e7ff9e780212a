#include "core/parquet/snappy.hpp"

#include <algorithm>
#include <random>

#include "check.hpp"
#include "parquet/plain_snappy.hpp"

using namespace headrace;
using namespace headrace::testing;
using headrace::parquet::decompress_snappy;

namespace {

using Buffer = std::vector<std::byte>;

Buffer text(std::string_view from, std::size_t repeats = 1) {
    Buffer out;
    for (; repeats != 0; --repeats)
        for (const char character : from) out.push_back(static_cast<std::byte>(character));
    return out;
}

Buffer operator+(Buffer first, const Buffer& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

// Writes a block and what it stands for.
struct Maker {
    Buffer elements, out;

    void number(std::uint64_t value, std::size_t bytes) {
        for (; bytes != 0; --bytes, value >>= 8) elements.push_back(static_cast<std::byte>(value));
    }

    // The size in the tag (`bytes` is 0), or in the bytes after it.
    void literal(const Buffer& value, std::size_t bytes = 0) {
        number(bytes == 0 ? (value.size() - 1) << 2 : (59 + bytes) << 2, 1);
        number(value.size() - 1, bytes);
        elements.insert(elements.end(), value.begin(), value.end());
        out.insert(out.end(), value.begin(), value.end());
    }

    void copy(std::size_t offset, std::size_t size, std::size_t bytes) {
        if (bytes == 1) number((offset >> 8) << 5 | (size - 4) << 2 | 1, 1);
        else number((size - 1) << 2 | (bytes == 2 ? 2 : 3), 1);
        number(offset, bytes);
        for (; size != 0; --size) out.push_back(out[out.size() - offset]);
    }

    [[nodiscard]] Buffer block() const {
        Buffer whole;
        std::size_t size = out.size();
        for (; size >= 128; size >>= 7) whole.push_back(static_cast<std::byte>(size | 128));
        whole.push_back(static_cast<std::byte>(size));
        return whole + elements;
    }
};

// In allocations of their own, so that the sanitizers see accesses outside them.
bool gives(Bytes block, const Buffer& wanted) {
    const Buffer input(block.begin(), block.end());
    Buffer target(wanted.size(), std::byte{0xA5});
    return decompress_snappy(input, target) && target == wanted;
}

bool refused(Bytes block, std::size_t size) {
    const Buffer input(block.begin(), block.end());
    Buffer target(size);
    return !decompress_snappy(input, target);
}

void check_damage(const Buffer& block, const Buffer& wanted) {
    for (std::size_t size = 0; size < block.size(); ++size) check(refused(Bytes(block).first(size), wanted.size()));
    check(refused(block + text("\1"), wanted.size()) && refused(block, wanted.size() + 1));
    if (!wanted.empty()) check(refused(block, wanted.size() - 1));
    Buffer changed = block;
    for (std::byte& byte : changed) {
        const std::byte before = byte;
        for (unsigned value = 0; value < 256; ++value) {
            byte = static_cast<std::byte>(value);
            const auto found = decompress_plainly(changed, wanted.size());
            if (found && found->size() == wanted.size()) check(gives(changed, *found));
            else check(refused(changed, wanted.size()));
        }
        byte = before;
    }
}

void test_reference() { // pyarrow.compress(..., codec="snappy")
    Buffer numbers(70);
    for (unsigned i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::byte>(i);
    const struct {
        std::string_view block;
        Buffer wanted;
    } samples[] = {
        {"00", {}},
        {"010061", text("a")},
        {"780c61626364fe0400ce0400", text("abcd", 30)},
        {"b40108616263fe0300fe0300c20300", text("abcabcabc", 20)},
        {"e8070000fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe01009a0100",
         Buffer(1000)},
        {"ba037874686520717569636b2062726f776e20666f78206a756d7073206f76657220011f206c617a7920646f672c050e3a2d00003b4e"
         "1500fe4200fe4200ca4200f049000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021222324252627"
         "28292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f40414243444574686520312f2e3b01fe0c004e0c00",
         text("the quick brown fox jumps over the lazy dog, the quick brown fox; ", 4) + numbers +
             text("the lazy dog", 9)}};
    for (const auto& sample : samples) {
        const Buffer block = from_hex(sample.block);
        check(gives(block, sample.wanted), sample.block);
        check_damage(block, sample.wanted);
    }
}

void test_forms() {
    for (const std::size_t size : {1, 15, 16, 17, 59, 60, 61, 64, 65, 256, 257, 65'536, 65'537, 1 << 20})
        for (std::size_t bytes = size > 60 ? 1 : 0; bytes <= 4; ++bytes) {
            if (bytes != 0 && bytes < 4 && (size - 1) >> (8 * bytes) != 0) continue;
            for (const std::size_t after : {0, 1, 30, 200}) {
                Maker maker;
                maker.literal(text("x", size), bytes);
                if (after != 0) maker.literal(text("yz", after), 2);
                check(gives(maker.block(), maker.out));
            }
        }
    // Copies that overlap what they write, at the end of the target and far from it.
    for (std::size_t offset = 1; offset <= 70; ++offset)
        for (std::size_t size = 1; size <= 64; ++size)
            for (const std::size_t bytes : {1, 2, 4})
                for (const std::size_t after : {0, 13, 90}) {
                    if (bytes == 1 && (size < 4 || size > 11)) continue;
                    Maker maker;
                    maker.literal(text("0123456789abcdefghijklmnopqrstuvwxyz", 2), 1);
                    maker.copy(offset, size, bytes);
                    if (after != 0) maker.literal(text("-", after), 1);
                    check(gives(maker.block(), maker.out));
                }
}

void test_far_copies() {
    Maker maker;
    for (int i = 0; i < 70; ++i) maker.literal(text("abcdefghijklmnopqrstuvwxyz0123456789", 30) + text("!", i + 1), 2);
    maker.copy(2047, 11, 1);
    maker.copy(65'535, 64, 2);
    maker.copy(70'000, 64, 4);
    maker.copy(maker.out.size(), 1, 4);
    check(gives(maker.block(), maker.out));
    maker.literal(text("."), 1); // the same elements, now with room after them
    maker.literal(text("?", 100), 1);
    check(gives(maker.block(), maker.out));
}

void test_refused() {
    check(refused({}, 0) && refused({}, 1));
    check(gives(from_hex("81808080000061"), text("a")) && refused(from_hex("81808080100061"), 1)); // a size of 33 bits
    check(refused(from_hex("8180808080000061"), 1) && refused(from_hex("8080808080808080"), 0));   // of too many bytes
    const std::string_view elements[] = {"00",          // a literal without its byte
                                         "04 61",       // without its second byte
                                         "f0",          // without its size
                                         "f4 00",       // with half of it
                                         "fc ffffffff", // of 4 GiB
                                         "f8 ffffff",   // 16 MiB
                                         "f4 ffff",     // 64 KiB
                                         "01",          // half a copy
                                         "02 01",       //
                                         "03 010000",   //
                                         "01 00",       // an offset of 0
                                         "02 0000",     //
                                         "03 00000000", //
                                         "01 06",       // from before the beginning
                                         "21 01",       //
                                         "02 0600",     //
                                         "02 ffff",     //
                                         "03 00000001", //
                                         "03 ffffffff", //
                                         "fe 0100"};    // past the end
    for (const std::string_view element : elements) {
        const Buffer begin = from_hex("10") + text("abcde");
        check(refused(from_hex("09") + begin + from_hex(element), 9), element);
        check(refused(from_hex("45") + begin + from_hex(element), 69) == (element != "fe 0100"), element);
    }
    for (const std::string_view element : std::span(elements).subspan(4)) { // with room on both sides
        if (element == "fe 0100" || element == "01" || element.starts_with("02 01") || element == "03 010000") continue;
        const Buffer begin = from_hex("ac02 10") + text("abcde");
        Maker rest;
        rest.literal(text("x", 200), 2);
        check(refused(begin + from_hex(element) + rest.elements, 300), element);
    }
}

void test_random_elements() {
    std::mt19937 random(7);
    const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random()) % limit; };
    for (int round = 0; round < 2000; ++round) {
        Maker maker;
        const std::size_t elements = 1 + below(60);
        for (std::size_t i = 0; i < elements; ++i) {
            if (maker.out.empty() || below(3) == 0) {
                Buffer value(1 + below(below(4) == 0 ? 300 : 20));
                for (std::byte& byte : value) byte = static_cast<std::byte>(random());
                maker.literal(value, value.size() > 256 ? 2 : value.size() > 60 ? 1 + below(4) : below(5));
            } else {
                const std::size_t offset = 1 + below(std::min<std::size_t>(maker.out.size(), 1U << below(16)));
                const std::size_t bytes = offset < 2048 ? (std::size_t{1} << below(3)) : offset < 65'536 ? 2 : 4;
                maker.copy(offset, bytes == 1 ? 4 + below(8) : 1 + below(64), bytes);
            }
        }
        const Buffer block = maker.block();
        check(gives(block, maker.out));
        check(decompress_plainly(block, 1 << 20) == maker.out);
        check(refused(Bytes(block).first(below(block.size())), maker.out.size()));
    }
}

} // namespace

int main() {
    test_reference();
    test_forms();
    test_far_copies();
    test_refused();
    test_random_elements();
}
