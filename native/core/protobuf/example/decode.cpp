#include "core/protobuf/example/decode.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "core/protobuf/example/template.hpp"
#include "core/protobuf/varints.hpp"

namespace headrace::example {
namespace {

std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

std::size_t size_of_number(Kind kind) { return kind == Kind::float32 ? sizeof(float) : sizeof(std::int64_t); }

[[noreturn]] void fail(Fault fault, std::uint64_t expected, std::uint64_t found) {
    throw FormatError(fault, 0, expected, found);
}

/// Sets `run` to the only packed run of a list, the usual form; false for any other form.
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

/// The bytes from the start of a step to its numbers, if all steps have the same: two tags with their lengths, and
/// those of the step itself.
class StepTemplate {
  public:
    /// The number of steps at the start of `steps` that match, each with `values()` bytes of numbers.
    [[nodiscard]] std::size_t count(Bytes steps) const noexcept {
        if (size_ == 0) return 0;
        std::size_t at = 0, found = 0;
        while (steps.size() - at >= size_ && std::memcmp(steps.data() + at, head_.data(), head_size_) == 0)
            at += size_, ++found;
        return found;
    }

    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] std::size_t values() const noexcept { return size_ - head_size_; }

    /// Copies the numbers of `count` steps that match.
    void copy(const std::byte* steps, std::size_t count, std::byte* to) const noexcept {
        const std::size_t values = size_ - head_size_;
        for (; count != 0; --count, steps += size_, to += values) std::memcpy(to, steps + head_size_, values);
    }

    /// Learns from a step that ends with its numbers. `begin` is where it begins, with its tag.
    void learn(const std::byte* begin, Bytes numbers) {
        const auto head = static_cast<std::size_t>(numbers.data() - begin);
        size_ = 0;
        if (head > head_.size() || numbers.empty()) return;
        head_size_ = head;
        std::memcpy(head_.data(), begin, head);
        size_ = head + numbers.size();
    }

  private:
    std::array<std::byte, 16> head_{};
    std::size_t head_size_ = 0;
    std::size_t size_ = 0; ///< Of a step; 0: nothing was learned.
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
          steps_(decoder.specs_.size()),
          templates_(decoder.specs_.size()) {
        for (const Bytes& payload : spans.payloads) total_bytes_ += payload.size();
    }

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
        bytes_ += spans_.payloads[i].size();
        if (!template_.locate(spans_.payloads[i], found_)) find(spans_.payloads[i]);
        for (std::size_t k = 0; k < columns_.size(); ++k) {
            feature_ = static_cast<int>(k);
            const Spec& spec = decoder_.specs_[k];
            if (spec.list) {
                put_steps(spec, columns_[k], steps_[k], templates_[k]);
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
        const bool possible = spec.has_default || count == 0 || n <= total_bytes_ / count;
        return possible ? n * count : total_bytes_;
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

    /// The key that was at this position in the last record, and the bytes of its entry up to the length of the value.
    struct Guess {
        std::string key;
        std::string head;
        bool list;
        int spec;

        [[nodiscard]] bool begins(Bytes entry) const noexcept {
            const std::size_t size = head.size();
            const auto* const expected = reinterpret_cast<const std::byte*>(head.data());
            if (entry.size() <= size) return false;
            if (size < 8 || size > 16) return std::memcmp(entry.data(), expected, size) == 0;
            const auto differ = [&](std::size_t at) {
                return load_le<std::uint64_t>(entry.data() + at) ^ load_le<std::uint64_t>(expected + at);
            };
            return (differ(0) | differ(size - 8)) == 0;
        }
    };

    void entry(bool in_lists, Part bytes) {
        if (usual_entry(in_lists, bytes)) return;
        read_entry(bytes, entry_);
        const int spec = look_up(in_lists);
        if (spec < 0) {
            if (entry_.has_value && entry_.more.empty()) skip(entry_.value);
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

    /// Reads an entry with the expected key, then one value that ends with the entry. False, with nothing done, for any
    /// other.
    bool usual_entry(bool in_lists, Part bytes) {
        if (guess_ >= guesses_.size()) return false;
        const Guess& guess = guesses_[guess_];
        if (guess.list != in_lists || !guess.begins(bytes.bytes)) return false;
        Part value = bytes.of(bytes.bytes.subspan(guess.head.size()));
        if (!proto::strip_length(value.bytes)) return false;
        if (guess.spec < 0) {
            skip(value);
        } else if (in_lists) {
            steps_[static_cast<std::size_t>(guess.spec)].assign(1, value);
        } else if (!sole_list(value, found_[static_cast<std::size_t>(guess.spec)])) {
            return false;
        }
        ++guess_;
        return true;
    }

    void skip(Part value) {
        if (learns_template_ && skipped_.size() < most_skipped) skipped_.push_back(value);
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
            if (at >= guesses_.size()) guesses_.resize(at + 1, Guess{{}, {}, false, -1});
            guesses_[at] = {std::string(key), head_of(entry_.key), in_lists, spec};
        }
        return spec;
    }

    static std::string head_of(Bytes key) {
        std::array<std::byte, 11> length{};
        const std::byte* const end = proto::write_head(length.data(), 1, key.size());
        std::string head(reinterpret_cast<const char*>(length.data()), static_cast<std::size_t>(end - length.data()));
        head.append(as_text(key)).push_back('\x12');
        return head;
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
            Part run;
            if (count == 1 && spec.kind == Kind::int64 && sole_packed_run(list, run) &&
                proto::decode_one(run.bytes, column.numbers.data() + i * sizeof(std::int64_t))) {
                ++column.number_count;
                return;
            }
            check_count(spec, read_numbers(list, spec.kind, count,
                                           column.numbers.data() + i * count * size_of_number(spec.kind), cpu()));
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

    void put_steps(const Spec& spec, Column& column, const std::vector<Part>& lists, StepTemplate& usual) {
        std::int64_t steps = column.steps.back();
        for (const Part& list : lists) {
            Cursor cursor = list.cursor();
            while (!cursor.done()) {
                if (const std::size_t count = usual.count({cursor.position(), cursor.remaining()}); count != 0) {
                    copy_steps(spec, column, cursor.position(), count, usual);
                    cursor.skip(count * usual.size());
                    steps += static_cast<std::int64_t>(count);
                    continue;
                }
                if (Bytes run; small_step(spec, cursor, run) && put_run(spec, column, list.of(run))) {
                    if (spec.kind == Kind::float32) usual.learn(cursor.position(), run);
                    cursor.skip(static_cast<std::size_t>(run.data() - cursor.position()) + run.size());
                    ++steps;
                    continue;
                }
                const std::byte* const at = cursor.position();
                const proto::Tag tag = proto::read_tag(cursor);
                if (tag.field != 1 || tag.wire != proto::Wire::bytes) {
                    proto::skip_value(cursor, tag);
                    continue;
                }
                step_.clear();
                merge_feature(list.of(proto::read_bytes(cursor)), step_);
                put_step(spec, column);
                ++steps;
                learn_step(spec, at, cursor.position(), usual);
            }
        }
        column.steps.push_back(steps);
    }

    /// Finds the packed run of a step whose lengths all take one byte: each then follows from the first one. False for
    /// any other step, and for texts.
    static bool small_step(const Spec& spec, const Cursor& cursor, Bytes& run) {
        constexpr std::size_t head = 6;
        if (cursor.remaining() < 8 || (spec.kind != Kind::float32 && spec.kind != Kind::int64)) return false;
        const auto found = load_le<std::uint64_t>(cursor.position());
        const std::uint64_t size = found >> 8 & 0xFF;
        if (size < head - 2 || size > 0x7F || size + 2 > cursor.remaining()) return false;
        const std::uint64_t tag = static_cast<std::uint64_t>(spec.kind) << 3 | static_cast<std::uint64_t>(2);
        const std::uint64_t expected =
            0x0A | size << 8 | tag << 16 | (size - 2) << 24 | std::uint64_t{0x0A} << 32 | (size - 4) << 40;
        if ((found & 0xFFFFFFFFFFFF) != expected) return false;
        run = {cursor.position() + head, static_cast<std::size_t>(size) + 2 - head};
        return true;
    }

    /// Appends the values of a step. False, with nothing done, if its run or their number is not as expected.
    bool put_run(const Spec& spec, Column& column, Part run) {
        std::size_t found = 1;
        if (spec.kind != Kind::int64 || !proto::decode_one(run.bytes, room_for(column, sizeof(std::int64_t), 1)))
            found = append_run(spec, column, run);
        if (found == proto::irregular || (spec.count >= 0 && std::cmp_not_equal(found, spec.count))) return false;
        column.number_count += found;
        if (spec.count < 0) column.offsets.push_back(end_of(spec, column));
        return true;
    }

    void copy_steps(const Spec& spec, Column& column, const std::byte* steps, std::size_t count,
                    const StepTemplate& usual) {
        const std::size_t values = usual.values() / sizeof(float);
        usual.copy(steps, count, room_for(column, sizeof(float), count * values));
        for (std::size_t i = 0; i < count; ++i) {
            column.number_count += values;
            if (spec.count < 0) column.offsets.push_back(end_of(spec, column));
        }
    }

    /// Floats take the same bytes in every step, so steps differ only in their values.
    void learn_step(const Spec& spec, const std::byte* begin, const std::byte* end, StepTemplate& usual) {
        Part run;
        if (spec.kind != Kind::float32 || step_.kind != Kind::float32 || !sole_packed_run(step_, run)) return;
        if (run.bytes.data() + run.bytes.size() == end) usual.learn(begin, run.bytes);
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
        const std::size_t item = size_of_number(spec.kind);
        Part run;
        if (list.kind == spec.kind && sole_packed_run(list, run)) {
            const std::size_t found = append_run(spec, column, run);
            if (found != proto::irregular) {
                column.number_count += found;
                return found;
            }
        }
        const std::size_t count = count_values(list, cpu());
        std::byte* const to = room_for(column, item, count);
        column.number_count += count;
        return read_numbers(list, spec.kind, count, to, cpu());
    }

    /// Writes the numbers of a packed run after those of the column, and returns how many there are.
    std::size_t append_run(const Spec& spec, Column& column, Part run) {
        // Counting long runs first saves memory: each varint has up to ten bytes, and takes eight in the column.
        constexpr std::size_t most_uncounted = 4096;
        const std::size_t size = run.bytes.size();
        if (spec.kind == Kind::float32) {
            if (size % sizeof(float) != 0) return proto::irregular;
            std::byte* const to = room_for(column, sizeof(float), size / sizeof(float));
            if (size != 0) std::memcpy(to, run.bytes.data(), size);
            return size / sizeof(float);
        }
        const std::size_t room = size <= most_uncounted ? size : proto::count_varints(run.bytes, cpu());
        return proto::decode_varints(run.bytes, room_for(column, sizeof(std::int64_t), room), room, cpu());
    }

    /// Room for `count` more numbers. A column grows to what all payloads take if the rest is like those read so far,
    /// so it is rarely moved. This is bounded by the bytes there are, because every number takes at least one.
    std::byte* room_for(Column& column, std::size_t item, std::size_t count) {
        const std::size_t used = column.number_count * item;
        const std::size_t needed = used + count * item;
        if (needed > column.numbers.capacity()) {
            const double share =
                static_cast<double>(total_bytes_) / static_cast<double>(std::max<std::size_t>(bytes_, 1));
            const auto expected = static_cast<std::size_t>(static_cast<double>(needed) * std::max(share, 1.0));
            Pool::Block larger = pool_->take(std::max(expected + expected / 16, needed + needed / 2) + 256);
            if (used != 0) std::memcpy(larger.data(), column.numbers.data(), used);
            column.numbers = std::move(larger);
        }
        return column.numbers.data() + used;
    }

    [[nodiscard]] const Cpu& cpu() const noexcept { return decoder_.cpu_; }

    static std::size_t append_texts(Column& column, const List& list) {
        const std::size_t before = column.texts.size();
        if (list.more.empty() && append_usual_texts(column.texts, list.piece.bytes))
            return column.texts.size() - before;
        column.texts.resize(before);
        each_text(list, [&column](Bytes text) { column.texts.push_back(text); });
        return column.texts.size() - before;
    }

    /// Appends the values of a list that holds nothing else, each with a length below 2^14. False for any other list:
    /// what was appended is then to be dropped.
    static bool append_usual_texts(std::vector<Bytes>& texts, Bytes list) {
        constexpr std::uint8_t more = 0x80;
        while (list.size() >= 2) {
            const auto byte = [list](std::size_t i) { return std::to_integer<std::size_t>(list[i]); };
            if (list[0] != std::byte{0x0A}) return false;
            std::size_t begin = 2, size = byte(1);
            if (size >= more) {
                if (list.size() < 3 || byte(2) >= more) return false;
                begin = 3, size = (size & 0x7F) | byte(2) << 7;
            }
            if (size > list.size() - begin) return false;
            texts.push_back(list.subspan(begin, size));
            list = list.subspan(begin + size);
        }
        return list.empty();
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
    std::vector<StepTemplate> templates_;
    std::size_t total_bytes_ = 0; ///< Of all payloads.
    std::size_t bytes_ = 0;       ///< Of those read so far.
    std::vector<Guess> guesses_;
    std::size_t guess_ = 0;
    Entry entry_;
    List step_;
    WireTemplate template_;
    bool learns_template_ = false;
    std::vector<Part> skipped_; ///< Values of unrequested entries, kept while a template is learned.
    int feature_ = -1;
};

Decoder::Decoder(std::vector<Spec> specs, const Cpu& cpu) : specs_(std::move(specs)), cpu_(cpu) {
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
