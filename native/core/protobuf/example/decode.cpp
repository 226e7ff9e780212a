#include "core/protobuf/example/decode.hpp"

#include <stdexcept>
#include <string_view>
#include <utility>

#include "core/protobuf/example/template.hpp"

namespace headrace::example {
namespace {

std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

std::size_t size_of_number(Kind kind) { return kind == Kind::float32 ? sizeof(float) : sizeof(std::int64_t); }

[[noreturn]] void fail(Fault fault, std::uint64_t expected, std::uint64_t found) {
    throw FormatError(fault, 0, expected, found);
}

/// A growing block from the pool, for numbers whose count is not known in advance.
class Growing {
  public:
    Growing(Column& column, const std::shared_ptr<Pool>& pool, std::size_t item)
        : column_(column),
          pool_(pool),
          item_(item) {}

    std::byte* extend(std::size_t count) {
        const std::size_t used = column_.number_count * item_;
        const std::size_t needed = used + count * item_;
        if (needed > column_.numbers.capacity()) {
            Pool::Block larger = pool_->take(needed + needed / 2 + 256);
            if (used != 0) std::memcpy(larger.data(), column_.numbers.data(), used);
            column_.numbers = std::move(larger);
        }
        column_.number_count += count;
        return column_.numbers.data() + used;
    }

  private:
    Column& column_;
    const std::shared_ptr<Pool>& pool_;
    std::size_t item_;
};

} // namespace

/// The state of one call of decode, reused from record to record.
class Run {
  public:
    Run(const Decoder& decoder, const Spans& spans, const std::shared_ptr<Pool>& pool, std::vector<Column>& columns)
        : decoder_(decoder),
          spans_(spans),
          pool_(pool),
          columns_(columns),
          found_(decoder.specs_.size()),
          steps_(decoder.specs_.size()) {}

    void prepare() {
        const std::size_t n = spans_.payloads.size();
        for (std::size_t k = 0; k < columns_.size(); ++k) {
            const Spec& spec = decoder_.specs_[k];
            Column& column = columns_[k];
            if (spec.list) column.steps.assign(1, 0), column.steps.reserve(n + 1);
            if (spec.count < 0) column.offsets.assign(1, 0), column.offsets.reserve(n + 1);
            const std::size_t values = spec.list || spec.count < 0 ? n : most_values(spec, n);
            if (spec.kind == Kind::bytes) {
                column.texts.reserve(values);
            } else {
                column.numbers = pool_->take(values * size_of_number(spec.kind));
            }
        }
    }

    void record(std::size_t i) {
        feature_ = -1;
        spans_.check_and_prefetch(i);
        if (!template_.locate(spans_.payloads[i], found_)) find(spans_.payloads[i]);
        for (std::size_t k = 0; k < columns_.size(); ++k) {
            feature_ = static_cast<int>(k);
            const Spec& spec = decoder_.specs_[k];
            if (spec.list) {
                put_steps(spec, columns_[k], steps_[k]);
            } else {
                put(spec, columns_[k], found_[k], i);
            }
        }
    }

    [[nodiscard]] int feature() const { return feature_; }

  private:
    /// Size of a column with a fixed count. Every value takes at least one byte of a payload, so a schema that needs
    /// more values than bytes fails at some record before they are written. Defaults are in memory already.
    [[nodiscard]] std::size_t most_values(const Spec& spec, std::size_t n) const {
        const auto count = static_cast<std::size_t>(spec.count);
        std::size_t bytes = 0;
        for (const Bytes& payload : spans_.payloads) bytes += payload.size();
        const bool possible = spec.has_default || count == 0 || n <= bytes / count;
        return possible ? n * count : bytes;
    }

    void find(Bytes payload) {
        for (List& list : found_) list.clear();
        for (auto& steps : steps_) steps.clear();
        guess_ = 0;
        learns_template_ = decoder_.lists_.empty() && template_.is_worth_learning(payload);
        skipped_.clear();
        walk(payload, [this](bool in_lists, Part bytes) { entry(in_lists, bytes); });
        if (learns_template_) template_.learn(payload, found_, skipped_);
    }

    struct Guess {
        std::string key;
        bool list;
        int spec;
    };

    void entry(bool in_lists, Part bytes) {
        read_entry(bytes, entry_);
        const int spec = look_up(in_lists);
        if (spec < 0) {
            if (learns_template_ && entry_.has_value && entry_.more.empty() && skipped_.size() < most_skipped)
                skipped_.push_back(entry_.value);
            return;
        }
        feature_ = spec;
        const auto k = static_cast<std::size_t>(spec);
        if (in_lists) {
            steps_[k].clear();
            entry_.each_value([&](Part value) { steps_[k].push_back(value); });
        } else {
            found_[k].clear();
            entry_.each_value([&](Part value) { merge_feature(value, found_[k]); });
        }
        feature_ = -1;
    }

    // Writers usually keep the keys of all records in one order, so first try the key that was at this position last
    // time.
    int look_up(bool in_lists) {
        const std::string_view key = as_text(entry_.key);
        const std::size_t at = guess_++;
        if (at < guesses_.size() && guesses_[at].list == in_lists && guesses_[at].key == key) return guesses_[at].spec;
        const auto& names = in_lists ? decoder_.lists_ : decoder_.features_;
        const auto known = names.find(std::string(key));
        const int spec = known == names.end() ? -1 : known->second;
        if (at < most_guesses) {
            if (at >= guesses_.size()) guesses_.resize(at + 1, Guess{{}, false, -1});
            guesses_[at] = {std::string(key), in_lists, spec};
        }
        return spec;
    }

    void put(const Spec& spec, Column& column, const List& list, std::size_t i) {
        if (list.kind == Kind::none) return put_absent(spec, column, i);
        check_kind(spec, list);
        if (spec.count < 0) {
            append(spec, column, list);
            column.offsets.push_back(end_of(spec, column));
        } else if (spec.kind == Kind::bytes) {
            check_count(spec, append_texts(column, list));
        } else {
            const auto count = static_cast<std::size_t>(spec.count);
            check_count(spec, read_numbers(list, spec.kind, count,
                                           column.numbers.data() + i * count * size_of_number(spec.kind)));
            column.number_count += count;
        }
    }

    static void put_absent(const Spec& spec, Column& column, std::size_t i) {
        if (spec.count < 0) {
            column.offsets.push_back(column.offsets.back());
        } else if (!spec.has_default) {
            fail(Fault::missing, static_cast<std::uint64_t>(spec.count), 0);
        } else if (spec.kind == Kind::bytes) {
            for (const std::string& text : spec.texts) column.texts.push_back(std::as_bytes(std::span(text)));
        } else {
            if (!spec.numbers.empty())
                std::memcpy(column.numbers.data() + i * spec.numbers.size(), spec.numbers.data(), spec.numbers.size());
            column.number_count += static_cast<std::size_t>(spec.count);
        }
    }

    void put_steps(const Spec& spec, Column& column, const std::vector<Part>& lists) {
        std::int64_t steps = column.steps.back();
        for (const Part& list : lists) {
            walk_fields(list, 1, [&](Part feature) {
                step_.clear();
                merge_feature(feature, step_);
                put_step(spec, column);
                ++steps;
            });
        }
        column.steps.push_back(steps);
    }

    // A step with an empty list, or without one, holds no values.
    void put_step(const Spec& spec, Column& column) {
        if (step_.kind != Kind::none) check_kind(spec, step_);
        const std::size_t added = step_.kind == Kind::none ? 0 : append(spec, column, step_);
        if (spec.count < 0) {
            column.offsets.push_back(end_of(spec, column));
        } else {
            check_count(spec, added);
        }
    }

    std::size_t append(const Spec& spec, Column& column, const List& list) {
        if (spec.kind == Kind::bytes) return append_texts(column, list);
        const std::size_t count = count_values(list);
        std::byte* const to = Growing(column, pool_, size_of_number(spec.kind)).extend(count);
        return read_numbers(list, spec.kind, count, to);
    }

    static std::size_t append_texts(Column& column, const List& list) {
        const std::size_t before = column.texts.size();
        each_text(list, [&column](Bytes text) { column.texts.push_back(text); });
        return column.texts.size() - before;
    }

    static std::int64_t end_of(const Spec& spec, const Column& column) {
        return static_cast<std::int64_t>(spec.kind == Kind::bytes ? column.texts.size() : column.number_count);
    }

    static void check_kind(const Spec& spec, const List& list) {
        const bool suits = list.kind == spec.kind || (spec.kind == Kind::number && list.kind != Kind::bytes);
        if (!suits)
            fail(Fault::wrong_kind, static_cast<std::uint64_t>(spec.kind), static_cast<std::uint64_t>(list.kind));
    }

    static void check_count(const Spec& spec, std::size_t found) {
        if (std::cmp_not_equal(found, spec.count))
            fail(Fault::wrong_count, static_cast<std::uint64_t>(spec.count), found);
    }

    // Records with more keys than this look every key up: a file must not make the guesses grow without bound.
    static constexpr std::size_t most_guesses = 4096;
    static constexpr std::size_t most_skipped = 64;

    const Decoder& decoder_;
    const Spans& spans_;
    const std::shared_ptr<Pool>& pool_;
    std::vector<Column>& columns_;
    std::vector<List> found_;              ///< Encoded lists by spec.
    std::vector<std::vector<Part>> steps_; ///< Encoded FeatureLists by spec.
    std::vector<Guess> guesses_;
    std::size_t guess_ = 0;
    Entry entry_;
    List step_;
    WireTemplate template_;
    bool learns_template_ = false;
    std::vector<Part> skipped_; ///< Values of unrequested entries, kept while a template is learned.
    int feature_ = -1;
};

Decoder::Decoder(std::vector<Spec> specs) : specs_(std::move(specs)) {
    for (std::size_t k = 0; k < specs_.size(); ++k) {
        auto& places = specs_[k].list ? lists_ : features_;
        // A key fills only one column; with two specs, the other would stay empty.
        if (!places.emplace(specs_[k].name, static_cast<int>(k)).second)
            throw std::invalid_argument("two specs for the key '" + specs_[k].name + "'");
    }
}

std::vector<Column> Decoder::decode(const Spans& spans, const std::shared_ptr<Pool>& pool) const {
    std::vector<Column> columns(specs_.size());
    Run run(*this, spans, pool, columns);
    run.prepare();
    for (std::size_t i = 0; i < spans.payloads.size(); ++i) {
        try {
            run.record(i);
        } catch (FormatError& error) {
            error.record = static_cast<std::int64_t>(i);
            error.feature = run.feature();
            throw;
        }
    }
    return columns;
}

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

std::size_t count_varints(Part packed) {
    std::size_t count = 0;
    for (const std::byte byte : packed.bytes) count += std::to_integer<unsigned>(byte) < 0x80;
    if (!packed.bytes.empty() && std::to_integer<unsigned>(packed.bytes.back()) >= 0x80)
        throw FormatError(Fault::wire, packed.cursor().offset());
    return count;
}

std::size_t count_floats(Part packed) {
    if (packed.bytes.size() % sizeof(float) != 0) throw FormatError(Fault::wire, packed.cursor().offset());
    return packed.bytes.size() / sizeof(float);
}

/// Sets `run` to the only packed run of a list, the usual form; false for any other form.
bool sole_packed_run(const List& list, Part& run) {
    if (!list.more.empty() || list.piece.bytes.empty() || list.piece.bytes[0] != std::byte{0x0A}) return false;
    Cursor cursor = list.piece.cursor();
    cursor.skip(1);
    const std::uint64_t length = cursor.varint();
    if (length != cursor.remaining()) return false;
    run = list.piece.of(cursor.take(length));
    return true;
}

/// Copies packed floats if there are exactly `count`, which is the case for nearly every list.
bool copy_run(Part run, std::size_t count, std::byte* to) {
    if (run.bytes.size() / sizeof(float) != count || run.bytes.size() % sizeof(float) != 0) return false;
    if (count != 0) std::memcpy(to, run.bytes.data(), run.bytes.size());
    return true;
}

/// Widens `count` one-byte numbers; false if one of them is longer.
bool widen_run(Part run, std::size_t count, std::byte* to) {
    unsigned seen = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const auto byte = std::to_integer<unsigned>(run.bytes[i]);
        store_le<std::uint64_t>(to + i * sizeof(std::uint64_t), byte);
        seen |= byte;
    }
    return seen < 0x80;
}

/// Decodes a run of `count` varints; false if it has more or fewer. A varint takes at least one byte, so shorter runs
/// are rejected at once.
bool unpack_run(Part run, std::size_t count, std::byte* to) {
    if (run.bytes.size() <= count) return run.bytes.size() == count && widen_run(run, count, to);
    Cursor cursor = run.cursor();
    for (std::size_t i = 0; i < count; ++i) {
        if (cursor.done()) return false;
        store_le<std::uint64_t>(to + i * sizeof(std::uint64_t), cursor.varint());
    }
    return cursor.done();
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

std::size_t count_values(const List& list) {
    std::size_t count = 0;
    if (list.kind == Kind::bytes) {
        each_text(list, [&](Bytes) { ++count; });
    } else if (list.kind != Kind::none) {
        each_piece(list, [&](Part piece) {
            walk_numbers(
                piece, list.kind,
                [&](Part packed) {
                    count += list.kind == Kind::float32 ? count_floats(packed) : count_varints(packed);
                },
                [&](Cursor& cursor) {
                    list.kind == Kind::float32 ? cursor.skip(sizeof(float)) : static_cast<void>(cursor.varint());
                    ++count;
                });
        });
    }
    return count;
}

std::size_t read_numbers(const List& list, Kind wanted, std::size_t count, std::byte* to) {
    Part run;
    if (list.kind == wanted && sole_packed_run(list, run)) {
        if (wanted == Kind::float32 ? copy_run(run, count, to) : unpack_run(run, count, to)) return count;
    }
    const std::size_t found = count_values(list);
    if (found != count || count == 0) return found;
    Writer writer(list.kind, wanted, count, to);
    each_piece(list, [&](Part piece) { writer.piece(piece); });
    writer.finish();
    return found;
}

} // namespace headrace::example
