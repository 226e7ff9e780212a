#include "core/parquet/join.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>

#include "core/parquet/thrift.hpp"

namespace headrace::parquet {
namespace {

constexpr std::int64_t missing = -1; // No number of rows is negative.
constexpr std::int64_t last_ordinal = 32767;
constexpr std::uint64_t short_list = 15; // the first count that stands after the type of a list

/// What joining needs of a FileMetaData: values as they stand there.
struct FooterParts {
    Bytes whole; // up to the end of the struct
    Bytes schema, rows, groups;
    const std::byte* first_group = nullptr; // in `groups`
    std::int64_t row_count = missing;
    std::uint64_t group_count = 0;
};

[[noreturn]] void refuse_at(const Cursor& cursor) { throw FormatError(Fault::structure, cursor.offset()); }

FooterParts take_apart(Bytes footer) {
    Cursor cursor(footer);
    ThriftReader reader(cursor);
    FooterParts found;
    const auto take = [&](Bytes& value, const auto& read) {
        if (value.data() != nullptr) refuse_at(cursor); // twice
        const std::byte* const begin = cursor.position();
        read();
        value = {begin, cursor.position()};
        return true;
    };
    reader.each_field([&](const ThriftField& field) {
        if (field.number == 8 || field.number == 9) refuse_at(cursor); // encrypted
        if (field.number == 2 && field.type == ThriftType::list)
            return take(found.schema, [&] { reader.skip(field.type); });
        if (field.number == 3 && field.type == ThriftType::i64)
            return take(found.rows, [&] { found.row_count = reader.integer(); });
        if (field.number != 4 || field.type != ThriftType::list) return false;
        return take(found.groups, [&] {
            const ThriftReader::Elements groups = reader.elements();
            if (groups.count != 0 && groups.type != ThriftType::structure) refuse_at(cursor);
            found.group_count = groups.count;
            found.first_group = cursor.position();
            for (std::uint64_t i = 0; i < groups.count; ++i) reader.skip(groups.type, true);
        });
    });
    found.whole = {footer.data(), cursor.position()};
    // Written in the order of their numbers, as by every writer: the number of rows stands before the row groups.
    const bool is_whole = found.schema.data() != nullptr && found.row_count >= 0 && found.groups.data() != nullptr;
    if (!is_whole || found.rows.data() > found.groups.data()) refuse_at(cursor);
    return found;
}

/// Appends bytes as they stand elsewhere, and other numbers in the place of some.
class ThriftCopy {
  public:
    void bytes(const std::byte* begin, const std::byte* end) { made_.insert(made_.end(), begin, end); }

    void varint(std::uint64_t value) {
        for (; value > 0x7f; value >>= 7) made_.push_back(static_cast<std::byte>(value | 0x80));
        made_.push_back(static_cast<std::byte>(value));
    }

    void integer(std::int64_t value) { // zigzag
        varint(static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63));
    }

    void list_of_structs(std::uint64_t count) {
        const auto type = static_cast<std::uint64_t>(ThriftType::structure);
        made_.push_back(static_cast<std::byte>(std::min(count, short_list) << 4 | type));
        if (count >= short_list) varint(count);
    }

    std::vector<std::byte> take() { return std::move(made_); }

  private:
    std::vector<std::byte> made_;
};

/// Copies the row groups of one part, whose pages are elsewhere now.
class GroupMover {
  public:
    GroupMover(const JoinedPart& part, const FooterParts& found, ThriftCopy& copy)
        : begin_(part.footer.data()),
          cursor_(part.footer),
          reader_(cursor_),
          move_(part.move),
          copied_(found.first_group),
          copy_(copy) {
        (void)cursor_.take(static_cast<std::size_t>(copied_ - begin_));
    }

    /// `before`: row groups before this one in the joined file.
    void group(std::uint64_t before) {
        reader_.each_field([&](const ThriftField& field) {
            if (field.number == 1 && field.type == ThriftType::list) { // columns
                const ThriftReader::Elements columns = reader_.elements();
                if (columns.count != 0 && columns.type != ThriftType::structure) refuse_at(cursor_);
                for (std::uint64_t i = 0; i < columns.count; ++i) column();
                return true;
            }
            if (field.number == 5) return offset(field);                          // file_offset
            if (field.number != 7 || field.type != ThriftType::i16) return false; // ordinal: only for encryption
            const auto ordinal = static_cast<std::int64_t>(std::min<std::uint64_t>(before, last_ordinal));
            replace([&](std::int64_t) { return ordinal; });
            return true;
        });
        copy_.bytes(copied_, cursor_.position());
        copied_ = cursor_.position();
    }

  private:
    // ColumnChunk.
    void column() {
        reader_.each_field([&](const ThriftField& field) {
            switch (field.number) {
            case 2:                       // file_offset
            case 4:                       // offset_index_offset
            case 6: return offset(field); // column_index_offset
            case 8:                       // crypto_metadata
            case 9: refuse_at(cursor_);   // encrypted_column_metadata
            case 3:                       // meta_data
                if (field.type != ThriftType::structure) return false;
                metadata();
                return true;
            default: return false;
            }
        });
    }

    // ColumnMetaData.
    void metadata() {
        reader_.each_field([&](const ThriftField& field) {
            switch (field.number) {
            case 9:                        // data_page_offset
            case 10:                       // index_page_offset
            case 11:                       // dictionary_page_offset
            case 14: return offset(field); // bloom_filter_offset
            default: return false;
            }
        });
    }

    // Moves an offset. 0 says that there is none.
    bool offset(const ThriftField& field) {
        if (field.type != ThriftType::i64) return false;
        replace([&](std::int64_t at) {
            if (at < 0 || at > std::numeric_limits<std::int64_t>::max() - move_) refuse_at(cursor_);
            return at == 0 ? 0 : at + move_;
        });
        return true;
    }

    template <typename Change> void replace(const Change& change) {
        copy_.bytes(copied_, cursor_.position());
        copy_.integer(change(reader_.integer()));
        copied_ = cursor_.position();
    }

    const std::byte* begin_;
    Cursor cursor_;
    ThriftReader reader_;
    std::int64_t move_;
    const std::byte* copied_; // up to here
    ThriftCopy& copy_;
};

} // namespace

std::vector<std::byte> join_footers(std::span<const JoinedPart> parts) {
    if (parts.empty()) throw std::invalid_argument("at least one part");
    std::vector<FooterParts> all;
    ThriftCopy copy;
    std::int64_t part = 0;
    try {
        std::int64_t rows = 0;
        std::uint64_t groups = 0;
        for (; part < std::ssize(parts); ++part) {
            const FooterParts found = take_apart(parts[static_cast<std::size_t>(part)].footer);
            const bool is_alike = all.empty() || std::ranges::equal(found.schema, all.front().schema);
            if (!is_alike || found.row_count > std::numeric_limits<std::int64_t>::max() - rows)
                throw FormatError(Fault::structure,
                                  static_cast<std::uint64_t>(found.schema.data() - found.whole.data()));
            rows += found.row_count;
            groups += found.group_count;
            all.push_back(found);
        }
        const FooterParts& first = all.front();
        copy.bytes(first.whole.data(), first.rows.data());
        copy.integer(rows);
        copy.bytes(std::to_address(first.rows.end()), first.groups.data());
        copy.list_of_structs(groups);
        std::uint64_t before = 0;
        for (part = 0; part < std::ssize(parts); ++part) {
            const auto at = static_cast<std::size_t>(part);
            GroupMover mover(parts[at], all[at], copy);
            for (std::uint64_t i = 0; i < all[at].group_count; ++i) mover.group(before++);
        }
        copy.bytes(std::to_address(first.groups.end()), std::to_address(first.whole.end()));
    } catch (FormatError& error) {
        error.record = part;
        throw;
    }
    return copy.take();
}

} // namespace headrace::parquet
