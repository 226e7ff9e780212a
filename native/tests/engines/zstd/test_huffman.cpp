#include "core/engines/zstd/huffman.hpp"

#include <algorithm>
#include <random>

#include "base/cpus.hpp"
#include "check.hpp"

using namespace headrace;
using namespace headrace::testing;
using namespace headrace::zstd;

namespace {

constexpr std::size_t readable = 16; // zeros before all input

std::vector<std::byte> behind_zeros(const std::vector<std::byte>& bytes) {
    std::vector<std::byte> all(readable);
    all.insert(all.end(), bytes.begin(), bytes.end());
    return all;
}

struct Code {
    unsigned value = 0, length = 0;
};

// A code by its definition: symbols with the smallest weight first, in order. Each takes 2^(weight-1) of 2^log slots.
struct Reference {
    std::vector<std::uint8_t> weights; // of all symbols, including the last
    std::vector<Code> codes;
    unsigned log = 0;

    explicit Reference(std::vector<std::uint8_t> given) : weights(std::move(given)), codes(weights.size()) {
        unsigned total = 0;
        for (const unsigned weight : weights) total += weight == 0 ? 0 : 1U << (weight - 1);
        while ((1U << log) < total) ++log;
        check((1U << log) == total);
        unsigned place = 0;
        for (unsigned weight = 1; weight <= log; ++weight)
            for (std::size_t symbol = 0; symbol < weights.size(); ++symbol) {
                if (weights[symbol] != weight) continue;
                codes[symbol] = {place >> (weight - 1), log + 1 - weight};
                place += 1U << (weight - 1);
            }
    }

    // The description with four-bit weights.
    [[nodiscard]] std::vector<std::byte> description() const {
        const std::size_t count = weights.size() - 1;
        std::vector<std::byte> bytes(1 + (count + 1) / 2);
        bytes[0] = static_cast<std::byte>(127 + count);
        for (std::size_t i = 0; i < count; ++i)
            bytes[1 + i / 2] |= static_cast<std::byte>(weights[i] << (i % 2 == 0 ? 4 : 0));
        return bytes;
    }

    // A stream. It is read backwards, so the first symbol is written last.
    [[nodiscard]] std::vector<std::byte> encode(const std::vector<std::uint8_t>& symbols) const {
        std::vector<std::byte> bytes;
        std::size_t at = 0;
        const auto put = [&](unsigned bit) {
            if (at % 8 == 0) bytes.push_back(std::byte{});
            bytes.back() |= static_cast<std::byte>(bit << (at++ % 8));
        };
        for (std::size_t i = symbols.size(); i-- != 0;)
            for (unsigned bit = 0; bit < codes[symbols[i]].length; ++bit) put(codes[symbols[i]].value >> bit & 1);
        put(1);
        return bytes;
    }

    // Four streams, after the sizes of the first three.
    [[nodiscard]] std::vector<std::byte> encode_four(const std::vector<std::uint8_t>& symbols) const {
        const std::size_t part = (symbols.size() + 3) / 4;
        std::vector<std::byte> sizes, streams;
        for (std::size_t i = 0; i < 4; ++i) {
            const auto begin = symbols.begin() + static_cast<std::ptrdiff_t>(i * part);
            const auto stream = encode({begin, i == 3 ? symbols.end() : begin + static_cast<std::ptrdiff_t>(part)});
            if (i < 3)
                for (const std::size_t byte : {stream.size() & 0xFF, stream.size() >> 8})
                    sizes.push_back(static_cast<std::byte>(byte));
            streams.insert(streams.end(), stream.begin(), stream.end());
        }
        sizes.insert(sizes.end(), streams.begin(), streams.end());
        return sizes;
    }
};

Reference random_reference(std::mt19937& random) {
    std::vector<unsigned> lengths = {1, 1};
    const std::size_t wanted = 2 + random() % 100;
    while (lengths.size() < wanted) {
        const std::size_t at = random() % 3 == 0 ? lengths.size() - 1 : random() % lengths.size();
        if (lengths[at] == HuffmanTable::most_log) continue;
        lengths.push_back(++lengths[at]);
    }
    const unsigned longest = *std::max_element(lengths.begin(), lengths.end());
    std::vector<std::uint8_t> weights;
    for (const unsigned length : lengths) weights.push_back(static_cast<std::uint8_t>(longest + 1 - length));
    std::shuffle(weights.begin(), weights.end(), random);
    return Reference(weights);
}

std::vector<std::uint8_t> random_symbols(std::mt19937& random, const Reference& code, std::size_t count) {
    std::vector<std::uint8_t> symbols(count);
    for (auto& symbol : symbols) symbol = static_cast<std::uint8_t>(random() % code.weights.size());
    return symbols;
}

bool holds(const std::vector<std::byte>& out, const std::vector<std::uint8_t>& symbols) {
    return std::equal(out.begin(), out.end(), symbols.begin(), symbols.end(),
                      [](std::byte one, std::uint8_t other) { return std::to_integer<std::uint8_t>(one) == other; });
}

struct Coded {
    std::vector<std::uint8_t> symbols;
    std::vector<std::byte> bytes, out;

    Coded(const Reference& code, std::vector<std::uint8_t> of)
        : symbols(std::move(of)),
          bytes(behind_zeros(code.encode_four(symbols))),
          out(symbols.size()) {}

    [[nodiscard]] HuffmanTable::Four open() {
        HuffmanTable::Four four;
        check(HuffmanTable::open_four(Bytes(bytes).subspan(readable), out, four));
        return four;
    }
};

void streams_of_every_code_decode(const Cpu& cpu) {
    std::mt19937 random(1);
    for (int round = 0; round < 60; ++round) {
        const Reference one = random_reference(random), other = random_reference(random);
        HuffmanTable table, other_table, pair[2];
        const auto text = behind_zeros(one.description()), other_text = behind_zeros(other.description());
        const Bytes from = Bytes(text).subspan(readable), other_from = Bytes(other_text).subspan(readable);
        check(!table.ready() && table.read(from, cpu) == from.size() && table.ready());
        check(other_table.read(other_from, cpu) == other_from.size());
        std::array<std::size_t, 2> sizes{};
        HuffmanTable::read_pair(pair[0], pair[1], {from, other_from}, sizes, cpu);
        check(sizes == std::array{from.size(), other_from.size()});

        for (const std::size_t count : {std::size_t{1}, std::size_t{50}}) {
            const auto symbols = random_symbols(random, one, count);
            const auto stream = behind_zeros(one.encode(symbols));
            std::vector<std::byte> out(count);
            check(table.decode_one(Bytes(stream).subspan(readable), out) && holds(out, symbols));
            std::vector<std::byte> less(count - 1), more(count + 1);
            check(!table.decode_one(Bytes(stream).subspan(readable), less));
            check(!table.decode_one(Bytes(stream).subspan(readable), more));
        }
        for (const std::size_t count : {std::size_t{6}, std::size_t{301}, std::size_t{3000}}) {
            Coded a(one, random_symbols(random, one, count)), b(other, random_symbols(random, other, count / 2 + 5));
            HuffmanTable::Four four = a.open(), other_four = b.open();
            check(table.decode_four(four, cpu) && holds(a.out, a.symbols));
            std::fill(a.out.begin(), a.out.end(), std::byte{});
            four = a.open();
            HuffmanTable::decode_eight(pair[0], four, pair[1], other_four, cpu);
            check(table.decode_four(four, cpu) && holds(a.out, a.symbols));
            check(other_table.decode_four(other_four, cpu) && holds(b.out, b.symbols));
        }
    }
}

void invalid_descriptions_are_refused(const Cpu& cpu) {
    const auto size_of = [&](const char* digits) {
        const auto bytes = behind_zeros(from_hex(digits));
        HuffmanTable table;
        const std::size_t size = table.read(Bytes(bytes).subspan(readable), cpu);
        check(table.ready() == (size != 0));
        HuffmanTable pair[2];
        std::array<std::size_t, 2> sizes{};
        const auto sound = behind_zeros(from_hex("80 10"));
        HuffmanTable::read_pair(pair[0], pair[1], {Bytes(bytes).subspan(readable), Bytes(sound).subspan(readable)},
                                sizes, cpu);
        check(sizes == std::array<std::size_t, 2>{size, 2});
        return size;
    };
    check(size_of("80 10") == 2);   // two symbols of one bit each
    check(size_of("82 1110") == 3); // four symbols of two bits each
    check(size_of("") == 0 && size_of("80") == 0);
    check(size_of("80 00") == 0); // no weights
    check(size_of("80 20") == 0); // only one symbol with the longest code
    check(size_of("80 f0") == 0); // a code that is too long
    check(size_of("81 31") == 0); // the rest is not a power of two
    // Compressed weights: truncated; invalid counts; an invalid stream; too many weights.
    check(size_of("05 00") == 0 && size_of("02 ffff") == 0 && size_of("03 100000") == 0);
    HuffmanTable table;
    const auto bytes = behind_zeros(from_hex("80 10"));
    check(table.read(Bytes(bytes).subspan(readable), cpu) == 2);
    table.forget();
    check(!table.ready());
}

void invalid_streams_are_refused() {
    HuffmanStream stream;
    std::vector<std::byte> out(8);
    check(!stream.open({}, out));
    const auto zero = behind_zeros({std::byte{1}, std::byte{0}});
    check(!stream.open(Bytes(zero).subspan(readable), out));
    HuffmanTable::Four four;
    const auto short_one = behind_zeros(from_hex("0100 0100 0100 01 01 01"));
    check(!HuffmanTable::open_four(Bytes(short_one).subspan(readable), out, four)); // the last stream is empty
    const auto sound = behind_zeros(from_hex("0100 0100 0100 01 01 01 01"));
    check(HuffmanTable::open_four(Bytes(sound).subspan(readable), out, four));
    check(!HuffmanTable::open_four(Bytes(sound).subspan(readable), std::span(out).first(5), four)); // too few for four
    const auto large = behind_zeros(from_hex("0500 0100 0100 01 01 01 01"));
    check(!HuffmanTable::open_four(Bytes(large).subspan(readable), out, four));
}

} // namespace

int main() {
    for (const Cpu& cpu : runnable_cpus()) {
        streams_of_every_code_decode(cpu);
        invalid_descriptions_are_refused(cpu);
    }
    invalid_streams_are_refused();
}
