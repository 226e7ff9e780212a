#include "core/parquet/column.hpp"

#include <algorithm>

#include "check.hpp"
#include "core/checksum/crc32.hpp"
#include "parquet/files.hpp"

using namespace headrace;
using namespace headrace::parquet;
using namespace headrace::testing;

namespace {

using Buffer = std::vector<std::byte>;
using Texts = std::vector<std::string>;

constexpr std::size_t all_rows = 10;
constexpr std::size_t idle_limit = 1 << 30;

ColumnForm form_of(std::size_t stored, std::size_t wanted, std::uint32_t most, std::int32_t empty = -1) {
    return {{stored, wanted}, {most, empty}};
}

ColumnForm with_fill(ColumnForm form) {
    form.fill.emplace(form.values.is_text() ? 3 : form.values.wanted, std::byte{0x55});
    return form;
}

const std::array forms = {
    form_of(8, 8, 0), with_fill(form_of(4, 2, 1)), form_of(1, 1, 1),
    form_of(0, 0, 1), form_of(4, 4, 1, 0),         form_of(0, 0, 3, 1),
};

// One value as text.
std::string value_of(const ColumnReader::Rows& rows, const ColumnForm& form, std::size_t at) {
    if (form.values.is_text()) {
        const Bytes text = rows.texts.view().at(at);
        return {reinterpret_cast<const char*>(text.data()), text.size()};
    }
    std::int64_t number = 0; // sign-extended
    for (std::size_t i = form.values.wanted; i-- > 0;) {
        const auto byte = std::to_integer<std::uint8_t>(rows.numbers.data()[at * form.values.wanted + i]);
        number = i + 1 == form.values.wanted ? static_cast<std::int8_t>(byte) : number * 256 + byte;
    }
    return std::to_string(number);
}

void add_rows(Texts& to, const ColumnReader::Rows& rows, const ColumnForm& form) {
    const auto* const offsets = reinterpret_cast<const std::int64_t*>(rows.offsets.data());
    if (form.levels.has_lists()) check(offsets[0] == 0 && offsets[rows.rows] == static_cast<std::int64_t>(rows.values));
    else check(rows.values == rows.rows);
    if (form.values.is_text()) check(rows.texts.count == rows.values);
    for (std::size_t row = 0; row < rows.rows; ++row) {
        if (!form.levels.has_lists()) {
            to.push_back(value_of(rows, form, row));
            continue;
        }
        check(offsets[row] <= offsets[row + 1]);
        std::string list = "[";
        for (std::int64_t at = offsets[row]; at < offsets[row + 1]; ++at)
            list += value_of(rows, form, static_cast<std::size_t>(at)) + ",";
        to.push_back(list + "]");
    }
}

Texts read_rows(ColumnReader& reader, const ColumnForm& form, std::size_t count, std::size_t portion) {
    Texts found;
    while (found.size() < count) add_rows(found, reader.read(std::min(portion, count - found.size())), form);
    return found;
}

// The rows of a column of row groups; nothing if it is refused.
std::optional<Texts> try_rows(const Buffer& file, std::vector<ColumnChunk> chunks, const ColumnForm& form,
                              std::size_t portion, std::size_t count = all_rows) {
    const auto pool = std::make_shared<Pool>(idle_limit);
    std::optional<Texts> found;
    try {
        ColumnReader reader(pool, file, std::move(chunks), form);
        found = read_rows(reader, form, count, portion);
    } catch (const FormatError& error) {
        check(error.fault == Fault::structure || error.fault == Fault::truncated || error.fault == Fault::wire ||
              error.fault == Fault::payload_checksum);
    }
    check(pool->stats().used_bytes == 0);
    return found;
}

std::string expected(std::size_t column, std::int64_t row) {
    std::string list = "[";
    switch (column) {
    case 0: return std::to_string(row * row % 5 - 2);
    case 1: return std::to_string(row % 4 == 1 ? 0x5555 : row - 3);
    case 2: return std::to_string(row % 3 == 0);
    case 3: return std::string("xyzxyz").substr(0, static_cast<std::size_t>(row % 3 * 3));
    case 4:
        for (std::int64_t i = row; i < row + row * 3 % 4; ++i) list += std::to_string(i) + ",";
        break;
    default:
        for (std::int64_t i = 0; i < row % 2 * 2; ++i)
            list += std::string("ab").substr(0, static_cast<std::size_t>(row % 3)) + ",";
    }
    return list + "]";
}

struct File {
    explicit File(const char* hex) : bytes(from_hex(hex)), footer_end(bytes.size() - 8) {
        footer = footer_end - load_le<std::uint32_t>(bytes.data() + footer_end);
        all = read_chunks(std::span(bytes).subspan(footer, footer_end - footer)).all;
        check(all.size() == 2 * forms.size());
    }

    [[nodiscard]] std::vector<ColumnChunk> chunks(std::size_t column) const {
        return {all[column], all[column + forms.size()]};
    }

    Buffer bytes;
    std::size_t footer = 0, footer_end;
    std::vector<ColumnChunk> all;
};

void test_file(const File& file) {
    for (std::size_t column = 0; column < forms.size(); ++column) {
        Texts wanted;
        for (std::size_t row = 0; row < all_rows; ++row)
            wanted.push_back(expected(column, static_cast<std::int64_t>(row)));
        for (std::size_t portion = 1; portion <= all_rows; ++portion)
            check(try_rows(file.bytes, file.chunks(column), forms[column], portion) == wanted);
        // The second row group on its own.
        check(try_rows(file.bytes, {file.all[column + forms.size()]}, forms[column], 3, 4) ==
              Texts(wanted.end() - 4, wanted.end()));
        check(!try_rows(file.bytes, file.chunks(column), forms[column], 4, all_rows + 1)); // one row too many
    }
}

void test_changes(const File& file) {
    for (std::size_t column = 0; column < forms.size(); ++column)
        for (const ColumnChunk& chunk : file.chunks(column))
            for (auto at = static_cast<std::size_t>(chunk.begin);
                 at < static_cast<std::size_t>(chunk.begin + chunk.size); ++at) {
                Buffer changed = file.bytes;
                for (unsigned bit = 0; bit < 8; ++bit) {
                    changed[at] = file.bytes[at] ^ static_cast<std::byte>(1 << bit);
                    const auto whole = try_rows(changed, file.chunks(column), forms[column], all_rows);
                    check(try_rows(changed, file.chunks(column), forms[column], 3) == whole);
                }
            }
}

// Every truncation, of the file and of a chunk.
void test_ends(const File& file) {
    for (std::size_t size = 0; size < file.bytes.size(); ++size) {
        const Buffer less(file.bytes.begin(), file.bytes.begin() + static_cast<std::ptrdiff_t>(size));
        for (std::size_t column = 0; column < forms.size(); ++column) {
            const auto chunks = file.chunks(column);
            const bool is_whole = static_cast<std::size_t>(chunks[1].begin + chunks[1].size) + page_slack <= size;
            check(try_rows(less, chunks, forms[column], 4).has_value() == is_whole);
        }
    }
    for (std::size_t column = 0; column < forms.size(); ++column)
        for (ColumnChunk chunk = file.all[column]; chunk.size-- > 0;)
            check(!try_rows(file.bytes, {chunk}, forms[column], 6, 6));
}

void test_footers(const File& file) {
    for (std::size_t at = file.footer; at < file.footer_end; ++at)
        for (unsigned bit = 0; bit < 8; ++bit) {
            Buffer changed = file.bytes;
            changed[at] ^= static_cast<std::byte>(1 << bit);
            Chunks chunks;
            try {
                chunks = read_chunks(std::span(changed).subspan(file.footer, file.footer_end - file.footer));
            } catch (const FormatError&) {
                continue;
            }
            for (std::size_t i = 0; i < std::min(chunks.all.size(), forms.size()); ++i)
                (void)try_rows(changed, {chunks.all[i]}, forms[i], 4, 6);
        }
}

// What a header of a page says, in the order of its fields.
struct Header {
    std::int64_t type = 0, decoded = 0, stored = 0;
    std::vector<std::int64_t> numbers; // of the struct for its type
    std::optional<std::int64_t> crc = {};
};

void put_varint(Buffer& to, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) to.push_back(static_cast<std::byte>(value | 0x80));
    to.push_back(static_cast<std::byte>(value));
}

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
                                            std::int64_t codec = 0) const {
        const auto size = static_cast<std::int64_t>(bytes_.size());
        Buffer file = bytes_;
        file.resize(file.size() + page_slack, std::byte{0xFF});
        const auto some = static_cast<std::size_t>(count);
        const std::vector<ColumnChunk> chunks{{0, size, levels, count, codec, 0}};
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
    for (const char* hex : {plain_v1, coded_v1, plain_v2, coded_v2}) {
        const File file(hex);
        test_file(file);
        test_changes(file);
        test_ends(file);
        test_footers(file);
    }
    test_pages();
    test_nulls();
    test_nulls_of_lists();
    test_days();
    test_gzip();
    test_sizes();
    test_dictionaries();
    test_levels();
    test_version_2();
    test_checksums();
    test_chunks();
    test_memory();
}
