#include "core/protobuf/example/values.hpp"

#include "core/protobuf/varints.hpp"

namespace headrace::example {
namespace {

template <typename OnPiece> void each_piece(const List& list, OnPiece&& on_piece) {
    on_piece(list.piece);
    for (const Part& piece : list.more) on_piece(piece);
}

/// Calls `on_packed(part)` for packed runs and `on_single(cursor)` for single values (4-byte floats or varints, by
/// kind).
template <typename OnPacked, typename OnSingle>
void walk_numbers(Part piece, Kind kind, OnPacked&& on_packed, OnSingle&& on_single) {
    const proto::Wire single = kind == Kind::float32 ? proto::Wire::fixed32 : proto::Wire::varint;
    Cursor cursor = piece.cursor();
    while (!cursor.done()) {
        const proto::Tag tag = proto::read_tag(cursor);
        if (tag.field == 1 && tag.wire == proto::Wire::bytes) {
            on_packed(piece.of(proto::read_bytes(cursor)));
        } else if (tag.field == 1 && tag.wire == single) {
            on_single(cursor);
        } else {
            proto::skip_value(cursor, tag);
        }
    }
}

std::size_t count_varints(Part packed, const Cpu& cpu) {
    if (!packed.bytes.empty() && std::to_integer<unsigned>(packed.bytes.back()) >= 0x80)
        throw FormatError(Fault::wire, packed.cursor().offset());
    return proto::count_varints(packed.bytes, cpu);
}

std::size_t count_floats(Part packed) {
    if (packed.bytes.size() % sizeof(float) != 0) throw FormatError(Fault::wire, packed.cursor().offset());
    return packed.bytes.size() / sizeof(float);
}

/// Copies packed floats if there are exactly `count`, which is the case for nearly every list.
bool copy_run(Part run, std::size_t count, std::byte* to) {
    if (run.bytes.size() / sizeof(float) != count || run.bytes.size() % sizeof(float) != 0) return false;
    if (count != 0) std::memcpy(to, run.bytes.data(), run.bytes.size());
    return true;
}

/// Decodes a run of `count` varints; false if it has more or fewer. A varint takes at least one byte, so shorter runs
/// are rejected at once.
bool unpack_run(Part run, std::size_t count, std::byte* to, const Cpu& cpu) {
    if (run.bytes.size() < count) return false;
    if (proto::decode_varints(run.bytes, to, count, cpu) == count) return true;
    if (run.bytes.size() == count) return false;
    Cursor cursor = run.cursor(); // reports an overlong varint
    for (std::size_t i = 0; i < count && !cursor.done(); ++i) static_cast<void>(cursor.varint());
    return false;
}

double as_double(std::int64_t whole, std::uint64_t offset) {
    constexpr std::int64_t limit = std::int64_t{1} << 53;
    if (whole < -limit || whole > limit)
        throw FormatError(Fault::range, offset, static_cast<std::uint64_t>(limit), static_cast<std::uint64_t>(whole));
    return static_cast<double>(whole);
}

/// Writes every number of a list in order, packed or not. `to` has room for `count` of them.
class Writer {
  public:
    Writer(Kind kind, Kind wanted, std::size_t count, std::byte* to)
        : kind_(kind),
          wanted_(wanted),
          count_(count),
          left_(count),
          to_(to) {}

    /// Checks that all of `to` is filled. `count_values` counted before, so a difference means that the bytes changed.
    void finish() const {
        if (left_ != 0) throw FormatError(Fault::changed, 0, count_);
    }

    void piece(Part piece) {
        walk_numbers(
            piece, kind_,
            [this](Part packed) {
                for (Cursor run = packed.cursor(); !run.done();) one(run);
            },
            [this](Cursor& cursor) { one(cursor); });
    }

  private:
    void one(Cursor& cursor) {
        const std::uint64_t offset = cursor.offset();
        if (left_ == 0) throw FormatError(Fault::changed, offset, count_);
        --left_;
        if (kind_ == Kind::float32) {
            const auto value = cursor.le<float>();
            wanted_ == Kind::number ? put(static_cast<double>(value)) : put(value);
        } else {
            const auto value = static_cast<std::int64_t>(cursor.varint());
            wanted_ == Kind::number ? put(as_double(value, offset)) : put(value);
        }
    }

    template <typename T> void put(T value) {
        store_le(to_, value);
        to_ += sizeof(T);
    }

    Kind kind_;
    Kind wanted_;
    std::size_t count_, left_;
    std::byte* to_;
};

} // namespace

bool sole_packed_run(const List& list, Part& run) {
    if (!list.more.empty() || list.piece.bytes.empty() || list.piece.bytes[0] != std::byte{0x0A}) return false;
    if (Bytes rest = list.piece.bytes.subspan(1); proto::strip_length(rest)) {
        run = list.piece.of(rest);
        return true;
    }
    Cursor cursor = list.piece.cursor();
    cursor.skip(1);
    const std::uint64_t length = cursor.varint();
    if (length != cursor.remaining()) return false;
    run = list.piece.of(cursor.take(length));
    return true;
}

std::size_t count_values(const List& list, const Cpu& cpu) {
    std::size_t count = 0;
    if (list.kind == Kind::bytes) {
        each_text(list, [&](Bytes) { ++count; });
    } else if (list.kind != Kind::none) {
        each_piece(list, [&](Part piece) {
            walk_numbers(
                piece, list.kind,
                [&](Part packed) {
                    count += list.kind == Kind::float32 ? count_floats(packed) : count_varints(packed, cpu);
                },
                [&](Cursor& cursor) {
                    list.kind == Kind::float32 ? cursor.skip(sizeof(float)) : static_cast<void>(cursor.varint());
                    ++count;
                });
        });
    }
    return count;
}

std::size_t read_numbers(const List& list, Kind wanted, std::size_t count, std::byte* to, const Cpu& cpu) {
    Part run;
    if (list.kind == wanted && sole_packed_run(list, run)) {
        if (wanted == Kind::float32 ? copy_run(run, count, to) : unpack_run(run, count, to, cpu)) return count;
    }
    const std::size_t found = count_values(list, cpu);
    if (found != count || count == 0) return found;
    Writer writer(list.kind, wanted, count, to);
    each_piece(list, [&](Part piece) { writer.piece(piece); });
    writer.finish();
    return found;
}

} // namespace headrace::example
