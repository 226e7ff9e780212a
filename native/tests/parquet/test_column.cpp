#include "core/parquet/column.hpp"

#include "parquet/column_rows.hpp"
#include "parquet/files.hpp"

using namespace headrace;
using namespace headrace::parquet;
using namespace headrace::testing;

namespace {

constexpr std::size_t all_rows = 10;

const std::array forms = {
    form_of(8, 8, 0), with_fill(form_of(4, 2, 1)), form_of(1, 1, 1),
    form_of(0, 0, 1), form_of(4, 4, 1, 0),         form_of(0, 0, 3, 1),
};

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
            check(try_rows(file.bytes, file.chunks(column), forms[column], portion, all_rows) == wanted);
        // The second row group on its own.
        check(try_rows(file.bytes, {file.all[column + forms.size()]}, forms[column], 3, 4) ==
              Texts(wanted.end() - 4, wanted.end()));
        check(!try_rows(file.bytes, file.chunks(column), forms[column], 4, all_rows + 1)); // one row too many
    }
}

// Texts of dictionaries that are kept once each, or that only might have been, are the same.
void test_recurring(const File& file) {
    for (std::size_t column = 0; column < forms.size(); ++column) {
        const auto wanted = try_rows(file.bytes, file.chunks(column), forms[column], 4, all_rows);
        ColumnForm kept = forms[column], looked_at = forms[column];
        kept.recurring.most_bytes = 0;
        looked_at.recurring.least_bytes = looked_at.recurring.least_each = 0;
        for (std::size_t portion = 1; portion <= all_rows; ++portion) {
            check(try_rows(file.bytes, file.chunks(column), looked_at, portion, all_rows) == wanted);
            check(try_rows(file.bytes, file.chunks(column), kept, portion, all_rows) == wanted);
        }
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
                    const auto whole = try_rows(changed, file.chunks(column), forms[column], all_rows, all_rows);
                    check(try_rows(changed, file.chunks(column), forms[column], 3, all_rows) == whole);
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
            check(try_rows(less, chunks, forms[column], 4, all_rows).has_value() == is_whole);
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

} // namespace

int main() {
    for (const char* hex : {plain_v1, coded_v1, plain_v2, coded_v2}) {
        const File file(hex);
        test_file(file);
        test_recurring(file);
        test_changes(file);
        test_ends(file);
        test_footers(file);
    }
}
