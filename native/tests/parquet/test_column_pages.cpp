#include "core/checksum/crc32.hpp"
#include "parquet/column_rows.hpp"
#include "parquet/made_bytes.hpp"

using namespace headrace;
using namespace headrace::parquet;
using namespace headrace::testing;

namespace {

// What a header of a page says, in the order of its fields.
struct Header {
    std::int64_t type = 0, decoded = 0, stored = 0;
    std::vector<std::int64_t> numbers; // of the struct for its type
    std::optional<std::int64_t> crc = {};
};

void put_number(Buffer& to, std::int64_t number) {
    to.push_back(std::byte{0x15}); // i32, of the next field
    put_varint(to, static_cast<std::uint64_t>(number) << 1 ^ static_cast<std::uint64_t>(number >> 63));
}

void put_page(Buffer& to, const Header& header, const Buffer& body) {
    for (const std::int64_t number : {header.type, header.decoded, header.stored}) put_number(to, number);
    std::int64_t before = 3;
    if (header.crc) {
        put_number(to, *header.crc);
        before = 4;
    }
    const std::int64_t field = header.type == 0 ? 5 : header.type == 1 ? 6 : header.type == 2 ? 7 : 8;
    to.push_back(static_cast<std::byte>((field - before) << 4 | 12));
    for (const std::int64_t number : header.numbers) put_number(to, number);
    to.resize(to.size() + 2); // ends of both structs
    to.insert(to.end(), body.begin(), body.end());
}

constexpr std::int64_t plain = 0, rle = 3, coded = 8;

// A chunk of pages, made one by one.
class Pages {
  public:
    // Of version 1.
    Pages& data(std::int64_t values, std::int64_t encoding, std::string_view hex) {
        const Buffer body = from_hex(hex);
        const auto size = static_cast<std::int64_t>(body.size());
        return page({0, size, size, {values, encoding, rle, rle}}, hex);
    }
    Pages& dictionary(std::int64_t values, std::string_view hex) {
        const auto size = static_cast<std::int64_t>(from_hex(hex).size());
        return page({2, size, size, {values, plain}}, hex);
    }
    Pages& page(const Header& header, std::string_view hex) {
        put_page(bytes_, header, from_hex(hex));
        return *this;
    }

    // The rows, in one portion and in small ones; nothing if they are refused.
    [[nodiscard]] std::optional<Texts> rows(const ColumnForm& form, std::int64_t count, std::int64_t levels,
                                            std::int64_t codec = 0, std::int64_t type = 1) const {
        const auto size = static_cast<std::int64_t>(bytes_.size());
        Buffer file = bytes_;
        file.resize(file.size() + page_slack, std::byte{0xFF});
        const auto some = static_cast<std::size_t>(count);
        const std::vector<ColumnChunk> chunks{{0, size, levels, count, codec, type}};
        const auto found = try_rows(file, chunks, form, std::max<std::size_t>(some, 1), some);
        check(try_rows(file, chunks, form, 1, some) == found);
        return found;
    }

  private:
    Buffer bytes_;
};

const ColumnForm numbers = form_of(4, 4, 0), texts = form_of(0, 0, 0), nulls = with_fill(form_of(4, 1, 1)),
                 lists = form_of(4, 4, 1, 0), bits = form_of(1, 1, 0);
constexpr const char* one_two = "01000000 02000000";
const Texts both = {"1", "2"};

void test_pages() {
    check(Pages().data(2, plain, one_two).rows(numbers, 2, 2) == both);
    check(!Pages().data(1, plain, "01000000").data(0, plain, "").data(1, plain, "02000000").rows(numbers, 2, 2));
    check(Pages().page({1, 3, 3, {}}, "ffffff").data(2, plain, one_two).rows(numbers, 2, 2) == both); // an index
    check(Pages().dictionary(2, one_two).data(2, coded, "01 03 02").rows(numbers, 2, 2) == both);
    check(Pages().dictionary(2, one_two).data(2, plain, one_two).rows(numbers, 2, 2) == both); // unused
    check(Pages().dictionary(0, "").data(2, plain, one_two).rows(numbers, 2, 2) == both);
    check(Pages().dictionary(2, one_two).data(2, coded, "01 02 00 02 01").rows(numbers, 2, 2) == both);
    check(Pages().dictionary(1, "07000000").data(3, coded, "00 06").rows(numbers, 3, 3) == Texts{"7", "7", "7"});
    check(Pages().data(2, plain, "01").rows(bits, 2, 2) == Texts{"1", "0"});
    check(Pages().data(2, rle, "02000000 03 01").rows(bits, 2, 2) == Texts{"1", "0"});
    check(Pages().data(2, plain, "02000000 03 02 05000000").rows(nulls, 2, 2) == Texts{"85", "5"});
    // Only nulls.
    check(Pages().dictionary(0, "").data(2, coded, "02000000 04 00").rows(nulls, 2, 2) == Texts{"85", "85"});
    check(Pages().dictionary(0, "").data(2, coded, "02000000 04 00 20").rows(nulls, 2, 2) == Texts{"85", "85"});
    check(Pages().data(2, plain, "02000000 04 00").rows(nulls, 2, 2) == Texts{"85", "85"});
    check(!Pages().dictionary(0, "").data(2, coded, "02000000 04 00 21").rows(nulls, 2, 2)); // codes of 33 bits
    check(!Pages().data(2, coded, "02000000 04 00 20").rows(nulls, 2, 2));                   // without a dictionary
    check(!Pages().data(2, 5, "02000000 04 00").rows(nulls, 2, 2));                          // in another encoding
    check(Pages().data(0, plain, "").rows(numbers, 0, 0) == Texts{});
    // A row in two pages, then empty ones.
    check(Pages()
              .data(2, plain, "02000000 03 02  02000000 03 03  01000000 02000000")
              .data(3, plain, "02000000 03 01  02000000 03 01  03000000")
              .rows(lists, 3, 5) == Texts{"[1,2,3,]", "[]", "[]"});
}

void test_nulls() {
    const ColumnForm deep = with_fill(form_of(4, 4, 2)), words = with_fill(form_of(0, 0, 1));
    const std::string fill = "UUU", number = std::to_string(0x55555555);
    // In a null struct.
    check(Pages().data(3, plain, "03000000 03 2400 05000000").rows(deep, 3, 3) == Texts{number, number, "5"});
    check(!Pages().data(2, plain, "02000000 04 03 05000000 06000000").rows(deep, 2, 2)); // no such level
    // Text, plain and with a dictionary.
    check(Pages().data(3, plain, "02000000 03 05 0100000061 00000000").rows(words, 3, 3) == Texts{"a", fill, ""});
    check(Pages().dictionary(1, "0100000061").data(3, coded, "02000000 03 05 00 04").rows(words, 3, 3) ==
          Texts{"a", fill, "a"});
    check(Pages().data(2, plain, "02000000 04 00").rows(words, 2, 2) == Texts{fill, fill});
    check(!Pages().data(3, plain, "02000000 03 05 0100000061 000000").rows(words, 3, 3));   // too few texts
    check(!Pages().data(2, plain, "02000000 03 02 00000000").rows(form_of(0, 0, 1), 2, 2)); // without a text for nulls
}

void test_nulls_of_lists() {
    const ColumnForm nullable = form_of(4, 4, 3, 1), filled = with_fill(nullable), inner = form_of(4, 4, 4, 2);
    const std::string number = std::to_string(0x55555555);
    constexpr const char* levels = "02000000 03 08  03000000 03 e400 07000000"; // 0, 1, 2 and 3
    check(Pages().data(4, plain, levels).rows(filled, 3, 4) == Texts{"[]", "[]", "[" + number + ",7,]"});
    check(!Pages().data(4, plain, levels).rows(nullable, 3, 4)); // without a number for nulls
    check(Pages().data(3, plain, "02000000 06 00  06000000 02 00 02 01 02 03 07000000").rows(nullable, 3, 3) ==
          Texts{"[]", "[]", "[7,]"});
    check(!Pages().data(1, plain, "02000000 02 00  02000000 02 03").rows(filled, 1, 1)); // a value that is not there
    // In a struct: levels 0, 1, 2 and 4.
    check(Pages().data(4, plain, "02000000 08 00  08000000 02 00 02 01 02 02 02 04 09000000").rows(inner, 4, 4) ==
          Texts{"[]", "[]", "[]", "[9,]"});
    check(!Pages().data(1, plain, "02000000 02 00  02000000 02 05 09000000").rows(inner, 1, 1)); // no such level
    // A null list does not go on.
    check(!Pages().data(2, plain, "04000000 02 00 02 01  04000000 02 00 02 03 07000000").rows(nullable, 1, 2));
    check(!Pages()
               .data(1, plain, "02000000 02 00  02000000 02 00")
               .data(1, plain, "02000000 02 01  02000000 02 03  01000000")
               .rows(nullable, 1, 2));
}

void test_days() {
    const ColumnForm days = form_of(4, 8, 0);
    check(Pages().data(3, plain, "01000000 ffffffff 00000080").rows(days, 3, 3) ==
          Texts{"1", "-1", std::to_string(INT32_MIN)});
    check(Pages().dictionary(2, "01000000 feffffff").data(2, coded, "01 03 02").rows(days, 2, 2) == Texts{"1", "-2"});
    check(!Pages().data(2, plain, "01000000 ffffff").rows(days, 2, 2));
}

void test_gzip() {
    const auto page = [](std::int64_t decoded, const std::string& hex) {
        const auto size = static_cast<std::int64_t>(from_hex(hex).size());
        return Pages().page({0, decoded, size, {2, plain, rle, rle}}, hex).rows(numbers, 2, 2, 2);
    };
    const std::string member = "1f8b0800000000000203 6364606060026200 7c178103 08000000"; // of `one_two`
    check(page(8, member) == both);
    check(!page(7, member) && !page(9, member) && !page(20 * 1032 + 1, member) && !page(INT32_MAX, member));
    check(!page(8, "78da 6364606060026200 00180004"));                // zlib
    check(!page(8, member + member) && !page(16, member + member));   // two members
    check(!page(8, member + "00") && !page(8, member.substr(0, 50))); // something behind it, a part of it
    check(Pages().page({0, 0, 0, {2, plain, rle, rle}}, "").rows(nulls, 2, 2, 2) == std::nullopt);
}

void test_sizes() {
    constexpr std::int64_t most = INT32_MAX;
    for (const std::int64_t codec : {0, 1, 2, 6})
        for (const ColumnForm& form : {numbers, texts, nulls, lists, bits})
            for (const std::int64_t encoding : {plain, rle, coded})
                for (const std::int64_t count : {std::int64_t{1}, std::int64_t{2}, most})
                    for (const auto& [decoded, stored] :
                         {std::pair{most, most}, {most, 8}, {8, most}, {8, 8}, {0, 0}}) {
                        const Pages page =
                            Pages().page({0, decoded, stored, {count, encoding, rle, rle}}, "02000000 02000000");
                        if (count > 2 || decoded == most || stored == most) check(!page.rows(form, 2, most, codec));
                        else (void)page.rows(form, 2, 2, codec);
                        const Pages coded_page =
                            Pages().page({2, decoded, stored, {count, plain}}, one_two).data(2, coded, "01 04 01");
                        if (count > 2 || decoded == most || stored == most) check(!coded_page.rows(form, 2, 2, codec));
                        else (void)coded_page.rows(form, 2, 2, codec);
                        (void)Pages()
                            .page({3, decoded, stored, {count, 0, std::min<std::int64_t>(count, 2), encoding, 2, 2}},
                                  one_two)
                            .rows(form, 2, 2, codec);
                    }
    // More values than writers put into a page.
    check(!Pages().dictionary(1, "07000000").data(most, coded, "00 feffffff0f").rows(numbers, 2, most));
}

void test_dictionaries() {
    const auto refused = [](const Pages& pages) { return !pages.rows(numbers, 2, 2); };
    check(refused(Pages().data(2, coded, "01 03 02")));                                                   // none
    check(refused(Pages().data(1, plain, "01000000").dictionary(2, one_two).data(1, coded, "01 02 01"))); // late
    check(refused(Pages().dictionary(2, one_two).dictionary(2, one_two).data(2, coded, "01 03 02")));     // two
    check(refused(Pages().dictionary(3, one_two).data(2, coded, "01 03 02")));                            // too short
    check(refused(Pages().page({2, 8, 8, {2, coded}}, one_two).data(2, coded, "01 03 02")));              // not plain
    check(refused(Pages().dictionary(2, one_two).data(2, coded, "02 03 0e")));                            // code 2
    check(refused(Pages().dictionary(2, one_two).data(2, coded, "01 04 02")));                            //
    check(refused(Pages().dictionary(2, one_two).data(2, coded, "20 04 ffffffff")));                      //
    check(refused(Pages().dictionary(2, one_two).data(2, coded, "21 04 0100000000")));                    // width 33
    check(refused(Pages().dictionary(2, one_two).data(2, coded, "")));                                    // no width
    check(refused(Pages().dictionary(2, one_two).data(2, coded, "01")));                                  // no codes
    check(refused(Pages().dictionary(2, one_two).data(2, coded, "01 02 01")));                            // one code
    check(refused(Pages().dictionary(2, one_two).data(2, coded, "01 00 01 03 02"))); // an empty run
    check(refused(Pages().dictionary(2, one_two).data(2, 5, one_two)));              // another encoding
    check(refused(Pages().dictionary(2, one_two).data(2, rle, "02000000 04 01")));
    check(!Pages().dictionary(2, "03").data(2, coded, "01 03 02").rows(bits, 2, 2));
    check(!Pages().dictionary(2, "04000000 61626364 05000000 61626364").data(2, coded, "01 04 00").rows(texts, 2, 2));
    check(!Pages().data(1, plain, "05000000 61626364").rows(texts, 1, 1));
    check(Pages().data(1, plain, "04000000 61626364").rows(texts, 1, 1) == Texts{"abcd"});
}

// Encodings of numbers and texts besides plain ones and dictionaries.
void test_encodings() {
    constexpr std::int64_t deltas = 5, lengths = 6, prefixes = 7, streams = 9;
    const ColumnForm wide = form_of(8, 8, 0), days = form_of(4, 8, 0), bytes = form_of(4, 1, 0);
    const Texts down = {"7", "5", "3"};                      // 7, and twice 2 less
    constexpr const char* hex = "8001 04 03 0e 03 00000000"; // -2 is 3
    for (const ColumnForm& form : {numbers, wide, days, bytes}) {
        check(Pages().data(3, deltas, hex).rows(form, 3, 3) == down);
        check(!Pages().data(3, deltas, std::string(hex) + "00").rows(form, 3, 3)); // something behind them
        check(!Pages().data(2, deltas, hex).rows(form, 2, 2) && !Pages().data(4, deltas, hex).rows(form, 4, 4));
    }
    check(Pages().data(1, deltas, "8001 04 01 01").rows(days, 1, 1) == Texts{"-1"});
    check(Pages().data(3, deltas, "02000000 03 05 8001 04 02 0e 03 00000000").rows(nulls, 3, 3) ==
          Texts{"7", "85", "5"});
    check(Pages().data(2, deltas, "02000000 04 00 8001 04 00 00").rows(nulls, 2, 2) == Texts{"85", "85"});
    check(Pages().data(3, deltas, "02000000 03 02  02000000 06 01  8001 04 03 0e 03 00000000").rows(lists, 2, 3) ==
          Texts{"[7,5,]", "[3,]"}); // levels 0, 1, 0
    check(!Pages().data(3, deltas, hex).rows(texts, 3, 3) && !Pages().data(3, deltas, hex).rows(bits, 3, 3));
    for (const std::int64_t type : {4, 5}) // floats
        check(!Pages().data(3, deltas, hex).rows(numbers, 3, 3, 0, type));

    check(Pages().data(2, streams, "01020000 00000001").rows(numbers, 2, 2) == Texts{"1", "16777218"});
    check(Pages().data(2, streams, "0102 0000 0000 ff00").rows(days, 2, 2) == Texts{"-16777215", "2"});
    check(Pages().data(2, streams, "01020000 00000000").rows(bytes, 2, 2) == both);
    check(Pages().data(1, streams, "02 00 00 00 00 00 00 80").rows(wide, 1, 1) == Texts{std::to_string(INT64_MIN + 2)});
    check(Pages().data(3, streams, "02000000 03 05 0705 0000 0000 0000").rows(nulls, 3, 3) == Texts{"7", "85", "5"});
    for (const char* other : {"01020000 000000", "01020000 0000000000", "01000000", ""})
        check(!Pages().data(2, streams, other).rows(numbers, 2, 2));
    check(!Pages().data(1, streams, "01000000").rows(texts, 1, 1));
    check(!Pages().data(1, streams, "01000000").rows(bits, 1, 1));

    constexpr const char* two = "8001 04 02 04 02 00000000"; // 2, and one more
    const std::string three = std::string(two) + "6162636465", shared = "8001 04 02 00 02 00000000" + three; // 0, 1
    check(Pages().data(2, lengths, three).rows(texts, 2, 2) == Texts{"ab", "cde"});
    check(Pages().data(2, prefixes, shared).rows(texts, 2, 2) == Texts{"ab", "acde"});
    check(Pages().data(3, lengths, "02000000 03 05" + three).rows(with_fill(form_of(0, 0, 1)), 3, 3) ==
          Texts{"ab", "UUU", "cde"});
    check(!Pages().data(2, lengths, three + "66").rows(texts, 2, 2) &&
          !Pages().data(2, lengths, two).rows(texts, 2, 2));
    check(!Pages().data(2, lengths, three).rows(numbers, 2, 2) && !Pages().data(2, prefixes, shared).rows(bits, 2, 2));
    check(!Pages().data(2, 4, one_two).rows(numbers, 2, 2) && !Pages().data(2, 10, one_two).rows(numbers, 2, 2));
}

void test_levels() {
    const auto refused = [](std::string_view hex) { return !Pages().data(2, plain, hex).rows(lists, 2, 2); };
    check(!refused("02000000 04 00  02000000 04 01  01000000 02000000"));
    check(refused("02000000 04 01  02000000 04 01  01000000 02000000")); // goes on from nowhere
    check(refused("02000000 02 00  02000000 04 01  01000000 02000000")); // too few levels
    check(refused("02000000 04 00  02000000 02 01  01000000 02000000")); //
    check(refused("02000000 04 00  ffffffff 04 01  01000000 02000000")); // of 2^32 bytes
    check(refused("02000000 04 00  02000000 04 02  01000000 02000000")); // no such level
    check(refused("02000000 04 02  02000000 04 01  01000000 02000000")); //
    check(refused("02000000 04 00  02000000 04 01  01000000 020000"));   // too few values
    check(refused("02000000"));
    check(refused(""));
    // A value after an empty list, in the same page and in the next one.
    check(!Pages().data(2, plain, "02000000 03 02  02000000 03 02  01000000").rows(lists, 1, 2));
    check(!Pages()
               .data(1, plain, "02000000 02 00  02000000 02 00")
               .data(1, plain, "02000000 02 01  02000000 02 01  01000000")
               .rows(lists, 1, 2));
    // More rows than the chunk has, and fewer.
    check(!Pages().data(2, plain, one_two).rows(numbers, 1, 2) && !Pages().data(2, plain, one_two).rows(numbers, 2, 3));
    check(!Pages().data(2, plain, "02000000 04 00  02000000 04 01  01000000 02000000").rows(lists, 1, 2));
    // Nulls where there is no number for them, or of another level.
    check(!Pages().data(2, plain, "02000000 03 02 05000000").rows(form_of(4, 1, 1), 2, 2));
    check(!Pages().data(2, plain, "02000000 04 02 05000000 05000000").rows(nulls, 2, 2)); // no such level
    check(!Pages().data(2, plain, "01000000 04").rows(nulls, 2, 2));
    // Levels of bits without runs, as old writers had them. Others named that encoding only where there are no levels.
    check(Pages().page({0, 8, 8, {2, plain, 4, 4}}, one_two).rows(numbers, 2, 2) == both);
    check(Pages().page({0, 6, 6, {2, plain, rle, 4}}, "02000000 04 00").rows(nulls, 2, 2).has_value());
    check(!Pages()
               .page({0, 20, 20, {2, plain, rle, 4}}, "02000000 04 00  02000000 04 01  01000000 02000000")
               .rows(lists, 2, 2));
    check(!Pages().page({0, 9, 9, {1, plain, 4, 4}}, "80 05000000 00000000").rows(nulls, 1, 1));
}

void test_version_2() {
    const auto page = [](std::vector<std::int64_t> numbers_, std::string_view hex) {
        const auto size = static_cast<std::int64_t>(from_hex(hex).size());
        return Pages().page({3, size, size, std::move(numbers_)}, hex);
    };
    check(page({2, 0, 2, plain, 0, 0}, one_two).rows(numbers, 2, 2) == both);
    check(page({2, 1, 2, plain, 2, 0}, "03 02 05000000").rows(nulls, 2, 2) == Texts{"85", "5"});
    check(page({3, 0, 2, plain, 2, 2}, "03 02 03 03 01000000 02000000").rows(lists, 2, 3) == Texts{"[1,2,]", "[]"});
    check(!page({2, 1, 2, plain, 7, 0}, "03 02 05000000").rows(nulls, 2, 2));
    check(!page({2, 1, 2, plain, 1, 0}, "03 02 05000000").rows(nulls, 2, 2));
    check(!page({2, 1, 2, plain, 2, 0}, "03 02 050000").rows(nulls, 2, 2));
}

void test_checksums() {
    const Buffer body = from_hex(one_two);
    const std::int64_t crc = crc32(body);
    for (const std::int64_t change : {0, 1}) {
        const Pages pages = Pages().page({0, 8, 8, {2, plain, rle, rle}, crc ^ change}, one_two);
        ColumnForm form = numbers;
        check((pages.rows(form, 2, 2) == both) == (change == 0));
        form.verify = false;
        check(pages.rows(form, 2, 2) == both);
    }
}

void test_chunks() {
    const Buffer file(100 + page_slack);
    const auto is_taken = [&](const ColumnChunk& chunk) {
        try {
            const ColumnReader reader(std::make_shared<Pool>(0), file, {chunk}, numbers);
            return true;
        } catch (const FormatError& error) {
            check(error.fault == Fault::structure);
            return false;
        }
    };
    check(is_taken({0, 100, 5, 5, 0, 1}) && is_taken({100, 0, 0, 0, 6, 1}) && is_taken({0, 0, 5, 5, 1, 1}));
    check(!is_taken({0, 101, 5, 5, 0, 1}) && !is_taken({101, 0, 5, 5, 0, 1}) && !is_taken({INT64_MAX, 1, 5, 5, 0, 1}));
    check(!is_taken({1, INT64_MAX, 5, 5, 0, 1}) && !is_taken({-1, 5, 5, 5, 0, 1}) && !is_taken({5, -1, 5, 5, 0, 1}));
    check(!is_taken({0, 100, 4, 5, 0, 1}) && !is_taken({0, 100, 6, 5, 0, 1}) && !is_taken({0, 100, 5, -1, 0, 1}));
    for (const std::int64_t codec : {3, 4, 5, 7, 8}) check(!is_taken({0, 100, 5, 5, codec, 1}));
}

// Numbers of which a file declares many take memory only as far as its pages hold them.
void test_memory() {
    constexpr std::int64_t many = std::int64_t{1} << 40;
    Buffer bytes;
    put_page(bytes, {0, 8, 8, {2, plain, rle, rle}}, from_hex(one_two));
    const auto size = static_cast<std::int64_t>(bytes.size());
    bytes.resize(bytes.size() + page_slack);
    const auto pool = std::make_shared<Pool>(idle_limit);
    {
        ColumnReader reader(pool, bytes, {{0, size, many, many, 0, 1}}, numbers);
        (void)fault_of([&] { (void)reader.read(static_cast<std::size_t>(many)); });
    }
    check(pool->stats().used_bytes + pool->stats().idle_bytes < 1 << 20);
}

} // namespace

int main() {
    test_pages();
    test_nulls();
    test_nulls_of_lists();
    test_days();
    test_gzip();
    test_sizes();
    test_dictionaries();
    test_encodings();
    test_levels();
    test_version_2();
    test_checksums();
    test_chunks();
    test_memory();
}
