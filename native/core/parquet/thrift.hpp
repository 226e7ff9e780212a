#pragma once

#include "core/base/cursor.hpp"

namespace headrace::parquet {

/// Types of Thrift's compact protocol.
enum class ThriftType : std::uint8_t {
    stop = 0,
    yes = 1,
    no = 2,
    byte = 3,
    i16 = 4,
    i32 = 5,
    i64 = 6,
    number = 7,
    binary = 8,
    list = 9,
    set = 10,
    map = 11,
    structure = 12
};

/// A field of a struct: its value follows.
struct ThriftField {
    std::int32_t number = 0;
    ThriftType type = ThriftType::stop;
};

/// Steps through the bytes of Thrift's compact protocol. Throws FormatError: `truncated`, or `wire` where they are not
/// that. Source: Thrift's thrift-compact-protocol.md.
class ThriftReader {
  public:
    explicit ThriftReader(Cursor& cursor) noexcept : cursor_(cursor) {}

    /// The next field of the struct at hand, given the one before it (a default one at the beginning). Its type is
    /// `stop` at the end of the struct. The caller reads or skips each value before it asks for the next field.
    [[nodiscard]] ThriftField next(const ThriftField& before);

    /// A signed integer of any width above a byte.
    [[nodiscard]] std::int64_t integer();

    /// The bytes of a `binary` value.
    [[nodiscard]] Bytes binary();

    struct Elements {
        ThriftType type;
        std::uint64_t count;
    };

    /// The type and the count of the elements of a list or set, which follow. No more than bytes are left: an element
    /// takes at least one.
    [[nodiscard]] Elements elements();

    /// Skips the value of a field or, with `is_element`, an element of a list. Throws `wire` for types that are nested
    /// deeper than 32.
    void skip(ThriftType type, bool is_element = false, int depth = 0);

    /// Calls `take` with each field of the struct at hand. It reads the value, or returns false to have it skipped.
    template <typename Take> void each_field(const Take& take) {
        for (ThriftField field = next({}); field.type != ThriftType::stop; field = next(field))
            if (!take(field)) skip(field.type);
    }

  private:
    Cursor& cursor_;
};

} // namespace headrace::parquet
