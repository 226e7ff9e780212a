#include "core/engines/gzip/member.hpp"

#include <algorithm>
#include <string>

#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;

namespace {

std::string inflate(std::string_view stream, std::size_t size) {
    std::string out(size, '?');
    Inflater().inflate(bytes_of(stream), std::as_writable_bytes(std::span(out)));
    return out;
}

Fault fault_in(std::string_view stream, std::size_t size) {
    return fault_of([&] { (void)inflate(stream, size); }).fault;
}

// A block with literal and distance codes of up to 15 bits.
void test_long_codes() {
    std::vector<std::byte> stream = from_hex("789c");
    std::size_t at = 0;
    const auto put = [&](unsigned value, unsigned count) {
        for (unsigned bit = 0; bit < count; ++bit, ++at) {
            if (at % 8 == 0) stream.push_back(std::byte{});
            stream.back() |= static_cast<std::byte>((value >> bit & 1) << (at % 8));
        }
    };
    const auto put_code = [&](unsigned code, unsigned count) {
        for (unsigned bit = count; bit-- != 0;) put(code >> bit & 1, 1);
    };
    // Symbols 'a' to 'n' have 1 to 14 bits, 'o' and end-of-block 15. Distances likewise, from the first on.
    put(5, 3), put(0, 5), put(15, 5), put(15, 4);
    for (unsigned i = 0; i < 19; ++i) put(i < 3 ? 0 : 4, 3); // lengths 0 to 15 in four bits each
    const auto length_of = [](unsigned symbol) {
        if (symbol >= 'a' && symbol <= 'o') return std::min(symbol - 'a' + 1, 15U);
        return symbol == 256 ? 15U : 0U;
    };
    for (unsigned symbol = 0; symbol < 257; ++symbol) put_code(length_of(symbol), 4);
    for (unsigned symbol = 0; symbol < 16; ++symbol) put_code(std::min(symbol + 1, 15U), 4);
    const auto put_literal = [&](unsigned symbol) {
        const unsigned length = length_of(symbol);
        put_code(symbol == 256 ? 0x7FFF : (1U << length) - 2, length);
    };
    std::string wanted;
    for (unsigned i = 0; i < 200; ++i) wanted += static_cast<char>('a' + i * i % 15);
    for (const char letter : wanted) put_literal(static_cast<unsigned char>(letter));
    put_literal(256);
    std::string out(wanted.size(), '?');
    const std::uint32_t sum = adler32(bytes_of(wanted));
    for (int shift = 24; shift >= 0; shift -= 8) stream.push_back(static_cast<std::byte>(sum >> shift));
    Inflater().inflate(stream, std::as_writable_bytes(std::span(out)));
    check(out == wanted);
}

} // namespace

int main() {
    test_long_codes();
    using namespace std::string_view_literals;
    // Written by zlib 1.3: fixed codes, dynamic codes, stored. The content is next to each.
    const auto fixed = "\170\001\053\311\110\125\050\054\315\114\316\126\110\052\312\057\317\123\110\313\257\120\310"
                       "\052\315\055\050\126"
                       "\310\057\113\055\122\050\001\112\347\044\126\125\052\244\344\247\353\240\360\024\212\163\122"
                       "\123\013\212\255\025"
                       "\000\054\264\027\310"sv;
    const std::string text = "the quick brown fox jumps over the lazy dog, the lazy dog sleeps; ";
    check(inflate(fixed, text.size()) == text);
    std::string mixed;
    for (int i = 0; i < 300; ++i) mixed += static_cast<char>((i * i * 7 + i / 3) % 61 + 32);
    mixed += text + text;
    const auto own = "\170\332\305\216\113\157\202\100\030\000\377\312\147\020\026\220\260\101\041\210\273\042\001\045"
                     "\113\024\130\220"
                     "\010\126\056\175\320\227\266\130\251\175\375\372\246\307\236\173\350\161\062\311\144\000\121\241"
                     "\330\250\314\266"
                     "\274\355\234\372\045\305\206\007\053\226\353\305\062\103\214\220\110\131\047\325\260\114\162\304"
                     "\234\161\330\217"
                     "\031\127\222\040\254\046\252\142\245\304\044\231\075\320\335\172\025\025\106\305\113\235\317\027"
                     "\205\045\324\252"
                     "\077\020\144\002\151\332\233\252\022\016\261\250\320\072\216\057\306\142\215\134\261\334\341\144"
                     "\066\215\120\312"
                     "\270\274\364\374\334\024\100\133\140\131\367\345\152\253\105\266\351\156\074\233\162\123\102\126"
                     "\066\233\004\273"
                     "\300\161\371\110\354\033\261\063\242\271\203\207\201\264\316\172\104\202\377\330\176\275\157\340"
                     "\345\374\160\275"
                     "\207\253\123\373\376\014\267\355\007\074\236\237\216\035\264\157\315\011\176\364\341\362\353\023"
                     "\156\332\073\355"
                     "\027\101\167\150\232\143\107\340\357\205\157\355\261\170\133"sv;
    check(inflate(own, mixed.size()) == mixed);
    const auto stored = "\170\001\001\003\000\374\377\141\142\143\002\115\001\047"sv;
    check(inflate(stored, 3) == "abc");
    check(inflate(std::string(stored) + "behind", 3) == "abc"); // zlib does not look past the end either
    check(inflate("\170\332\143\140\030\005\243\140\024\014\167\000\000\003\350\000\001"sv, 1000) ==
          std::string(1000, '\0')); // a distance of 1
    for (std::size_t cut = 0; cut < own.size(); ++cut)
        check(fault_in(own.substr(0, cut), mixed.size()) == Fault::truncated);
    check(fault_in(fixed, text.size() - 1) == Fault::wrong_count);
    check(fault_in(fixed, text.size() + 1) == Fault::wrong_count);
    check(fault_in(stored, 2) == Fault::wrong_count);
    check(fault_in(""sv, 0) == Fault::truncated);
    check(fault_in("\170\235\3\0\0\0\0\1"sv, 0) == Fault::header);     // wrong header check
    check(fault_in("\170\273\0\0\0\0\3\0"sv, 0) == Fault::header);     // a dictionary
    check(fault_in("\170\234\7\0\0\0\0\1"sv, 0) == Fault::structure);  // invalid block type
    check(fault_in("\170\234\1\3\0\0\0abc"sv, 3) == Fault::structure); // stored, with a wrong complement
    check(fault_in("\170\234\3\2\0\0\0\0"sv, 9) == Fault::structure);  // a distance before the start
    check(fault_in("\170\234\3\0\0\0\0\2"sv, 0) == Fault::payload_checksum);
    check(inflate("\170\234\3\0\0\0\0\1"sv, 0).empty());
    check(adler32(bytes_of("Wikipedia"sv)) == 0x11E60398); // the well-known example
    check(adler32({}) == 1);
}
