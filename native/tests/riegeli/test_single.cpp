#include "core/riegeli/single.hpp"

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

void other_chunks_have_no_record() {
    FileMaker maker;
    const std::vector<std::uint64_t> begins = {maker.put_records({"a"}),
                                               maker.put_records({"a", "b"}),
                                               maker.put_records({""}),
                                               maker.put_records({std::string(most_single + 1, 'x')}),
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
    other_chunks_have_no_record();
    damaged_chunks_are_left();
}
