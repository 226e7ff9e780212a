#include "core/riegeli/single.hpp"

#include <algorithm>
#include <random>

#include "check.hpp"
#include "riegeli/files.hpp"

using namespace headrace;
using namespace headrace::riegeli;
using namespace headrace::testing;

namespace {

// One record under Zstandard: five equal letters, or "hello" in a raw block.
std::vector<std::byte> packed() { return from_hex("7a 0b 01 28b52ffd 20 01 090000 05 05 28b52ffd 20 05 2b0000 78"); }
std::vector<std::byte> stored() {
    return from_hex("7a 0b 01 28b52ffd 20 01 090000 05 05 28b52ffd 20 05 290000 68656c6c6f");
}

std::string text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

struct Read {
    std::vector<Single> singles;
    std::vector<std::vector<std::byte>> rooms;

    Read(Bytes file, const std::vector<std::uint64_t>& begins, unsigned threads, bool verify = true) {
        for (const std::uint64_t begin : begins) singles.push_back({file, begin});
        read_single_headers(singles, threads);
        for (Single& single : singles) {
            rooms.emplace_back(single.header.decoded_size);
            single.target = rooms.back();
        }
        std::vector<Single> these;
        for (const Single& single : singles)
            if (single.header.num_records != 0) these.push_back(single);
        read_singles(these, verify, threads);
        for (Single& single : singles)
            for (const Single& other : these)
                if (other.begin == single.begin && other.target.data() == single.target.data()) single = other;
    }
};

void records_are_views_or_copies() {
    FileMaker maker;
    std::vector<std::uint64_t> begins = {maker.put_records({"plain"}),
                                         maker.put_data(ChunkType::simple, 1, 5, packed()),
                                         maker.put_data(ChunkType::simple, 1, 5, stored())};
    begins.push_back(begins[1]);
    for (const unsigned threads : {1U, 2U}) {
        const Read read(maker.file, begins, threads);
        std::vector<std::string> texts;
        for (const Single& single : read.singles) {
            check(single.done);
            texts.push_back(text(single.record));
        }
        check(texts == std::vector<std::string>{"plain", "xxxxx", "hello", "xxxxx"});
        for (std::size_t i = 0; i < 4; ++i)
            check((read.singles[i].record.data() == read.singles[i].target.data()) == (i % 2 == 1));
    }
}

void usual_chunks_are_known_by_their_codec() {
    FileMaker maker;
    std::vector<std::byte> brotli = packed();
    brotli[0] = std::byte{'b'};
    const std::vector<std::uint64_t> begins = {maker.put_records({"plain"}),
                                               maker.put_data(ChunkType::simple, 1, 5, packed()),
                                               maker.put_data(ChunkType::simple, 1, 5, brotli),
                                               maker.put_records({"a", "b"}),
                                               0,
                                               UINT64_MAX};
    for (std::size_t i = 0; i < begins.size(); ++i) {
        Single single{maker.file, begins[i]};
        read_single_headers({&single, 1}, 1);
        check(is_usual(single) == (i < 2));
        single.file = Bytes(maker.file).first(begins[0]); // A file that ends before the data.
        check(!is_usual(single));
    }
}

void many_records_on_many_threads() {
    FileMaker maker;
    std::vector<std::uint64_t> begins;
    std::vector<std::string> expected;
    for (int i = 0; i < 500; ++i) {
        expected.push_back(
            i % 3 == 0 ? "xxxxx" : std::string(static_cast<std::size_t>(200 + i), static_cast<char>('a' + i % 26)));
        begins.push_back(i % 3 == 0 ? maker.put_data(ChunkType::simple, 1, 5, packed())
                                    : maker.put_records({expected.back()}));
    }
    const Read read(maker.file, begins, 4);
    for (std::size_t i = 0; i < begins.size(); ++i)
        check(read.singles[i].done && text(read.singles[i].record) == expected[i]);
}

/// A record under Zstandard in raw blocks, or in one that repeats a letter.
std::vector<std::byte> framed(const std::string& record, bool repeats) {
    const auto put = [](std::vector<std::byte>& to, std::uint64_t number, std::size_t bytes) {
        for (std::size_t i = 0; i < bytes; ++i) to.push_back(static_cast<std::byte>(number >> 8 * i));
    };
    const auto put_varint = [](std::vector<std::byte>& to, std::uint64_t number) {
        for (; number > 127; number >>= 7) to.push_back(static_cast<std::byte>(number | 128));
        to.push_back(static_cast<std::byte>(number));
    };
    std::vector<std::byte> size, out = from_hex("7a");
    put_varint(size, record.size());
    put_varint(out, 13 + size.size()); // the sizes: their decoded size, and a frame
    put_varint(out, size.size());
    const auto put_frame = [&](Bytes content, bool repeated) {
        for (const std::byte byte : from_hex("28b52ffd a0")) out.push_back(byte); // one segment, size in four bytes
        put(out, content.size(), 4);
        constexpr std::size_t most = 128 << 10;
        for (std::size_t at = 0; at < content.size(); at += most) {
            const std::size_t count = std::min(most, content.size() - at);
            const bool is_last = at + count == content.size();
            put(out, count << 3 | (repeated ? 2U : 0U) | (is_last ? 1U : 0U), 3);
            for (std::size_t i = 0; i < (repeated ? 1 : count); ++i) out.push_back(content[at + i]);
        }
    };
    put_frame(size, false);
    put_varint(out, record.size());
    put_frame(std::as_bytes(std::span(record)), repeats);
    return out;
}

std::string random_text(std::size_t size) {
    static std::mt19937_64 random(7);
    std::string text(size, ' ');
    for (char& byte : text) byte = static_cast<char>(random());
    return text;
}

void large_records_are_read_together() {
    FileMaker maker;
    std::vector<std::uint64_t> begins;
    std::vector<std::string> expected;
    for (const std::size_t size : {most_single, most_single + 1, std::uint64_t{300'000}}) {
        const std::string record = random_text(size);
        begins.push_back(maker.put_records({record}));
        begins.push_back(maker.put_data(ChunkType::simple, 1, size, framed(record, false)));
        expected.insert(expected.end(), 2, record);
        if (size == most_single) continue;
        std::vector<std::byte> other = framed(record, false);
        other[0] = std::byte{'b'};
        begins.push_back(maker.put_data(ChunkType::simple, 1, size, other));
        begins.push_back(maker.put_data(ChunkType::simple, 1, size, framed(std::string(size, 'x'), true)));
        expected.insert(expected.end(), 2, ""); // Another codec, and a claim of many bytes for few.
    }
    for (const unsigned threads : {1U, 3U}) {
        const Read read(maker.file, begins, threads);
        for (std::size_t i = 0; i < begins.size(); ++i) {
            check((read.singles[i].header.num_records == 1) == !expected[i].empty());
            check(read.singles[i].done == !expected[i].empty());
            check(expected[i].empty() || text(read.singles[i].record) == expected[i]);
        }
    }
    for (std::size_t at = 100; at < maker.file.size(); at += 9973) {
        maker.file[at] ^= std::byte{1};
        const Read read(maker.file, begins, 2);
        for (std::size_t i = 0; i < begins.size(); ++i)
            check(!read.singles[i].done || text(read.singles[i].record) == expected[i]);
        maker.file[at] ^= std::byte{1};
    }
}

void the_largest_records_are_left() {
    FileMaker maker;
    const std::string record = random_text(most_large);
    const std::vector<std::uint64_t> begins = {maker.put_records({record.substr(1000)}), maker.put_records({record})};
    const Read read(maker.file, begins, 2);
    check(read.singles[0].done && text(read.singles[0].record) == record.substr(1000));
    check(read.singles[1].header.num_records == 0);
}

void other_chunks_have_no_record() {
    FileMaker maker;
    const std::vector<std::uint64_t> begins = {maker.put_records({"a"}),
                                               maker.put_records({"a", "b"}),
                                               maker.put_records({""}),
                                               maker.put_records({std::string(most_large + 1, 'x')}),
                                               0,
                                               7,
                                               maker.file.size() + 1000,
                                               UINT64_MAX};
    const Read read(maker.file, begins, 1);
    for (std::size_t i = 0; i < begins.size(); ++i) {
        check((read.singles[i].header.num_records == 1) == (i == 0));
        check(read.singles[i].done == (i == 0));
    }
}

void damaged_chunks_are_left() {
    FileMaker maker;
    const std::vector<std::uint64_t> begins = {
        maker.put_records({"good"}), maker.put_data(ChunkType::simple, 1, 5, packed()), maker.put_records({"also"})};
    maker.file[begins[1] + 58] ^= std::byte{1}; // in the data
    const Read read(maker.file, begins, 1);
    check(!read.singles[1].done && read.singles[2].done);
    maker.file[begins[2] + 3] ^= std::byte{1}; // in the header
    const Read other(maker.file, begins, 1);
    check(other.singles[2].header.num_records == 0);
}

} // namespace

int main() {
    records_are_views_or_copies();
    usual_chunks_are_known_by_their_codec();
    many_records_on_many_threads();
    large_records_are_read_together();
    the_largest_records_are_left();
    other_chunks_have_no_record();
    damaged_chunks_are_left();
}
