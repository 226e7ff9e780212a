#include "core/tf_example_decode.hpp"

#include <algorithm>
#include <string_view>

namespace penstock::example {
namespace {

std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

std::size_t size_of(Kind kind) { return kind == Kind::float32 ? sizeof(float) : sizeof(std::int64_t); }

bool suits(Kind wanted, Kind found) { return wanted == found || (wanted == Kind::number && found != Kind::bytes); }

[[noreturn]] void fail(Fault fault, std::uint64_t expected, std::uint64_t found) { throw FormatError(fault, 0, expected, found); }

/// The one packed run of a list that was written the usual way; false when it was not.
bool sole_packed_run(const List& list, Bytes& run) {
    if (!list.more.empty() || list.piece.empty() || list.piece[0] != std::byte{0x0A}) return false;
    Cursor cursor(list.piece.subspan(1));
    const std::uint64_t length = cursor.varint();
    if (length != cursor.remaining()) return false;
    run = cursor.take(length);
    return true;
}

/// `count` varints into `to`, if that is exactly what the run holds.
bool unpack(Bytes run, std::size_t count, std::int64_t* to) {
    Cursor cursor(run);
    for (std::size_t i = 0; i < count; ++i) {
        if (cursor.done()) return false;
        to[i] = static_cast<std::int64_t>(cursor.varint());
    }
    return cursor.done();
}

/// Asks for the first lines of a payload that is read soon: the processor foresees a long stream, but not that the checksum
/// of a record is taken in three places at once, nor where the next record of a shuffled batch lies.
void prefetch(Bytes payload) {
#if defined(__GNUC__) || defined(__clang__)
    constexpr std::size_t line = 64, most = 4096;
    const std::size_t size = std::min(payload.size(), most);
    for (std::size_t at = 0; at < size; at += line) __builtin_prefetch(payload.data() + at);
#else
    (void)payload;
#endif
}

/// Room for numbers whose count is not known beforehand, from the pool.
class Growing {
  public:
    Growing(Column& column, const std::shared_ptr<Pool>& pool, std::size_t item) : column_(column), pool_(pool), item_(item) {}

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

/// One call of decode: what is reused from record to record.
class Run {
  public:
    Run(const Decoder& decoder, const Spans& spans, const std::shared_ptr<Pool>& pool, std::vector<Column>& columns)
        : decoder_(decoder), spans_(spans), pool_(pool), columns_(columns), found_(decoder.specs_.size()), steps_(decoder.specs_.size()) {}

    void prepare() {
        const std::size_t n = spans_.payloads.size();
        for (std::size_t k = 0; k < columns_.size(); ++k) {
            const Spec& spec = decoder_.specs_[k];
            Column& column = columns_[k];
            if (spec.list) column.steps.assign(1, 0), column.steps.reserve(n + 1);
            if (spec.count < 0) column.offsets.assign(1, 0), column.offsets.reserve(n + 1);
            if (spec.kind == Kind::bytes) {
                if (spec.count > 0 && !spec.list) column.texts.reserve(n * static_cast<std::size_t>(spec.count));
            } else if (spec.count >= 0 && !spec.list) {
                column.number_count = n * static_cast<std::size_t>(spec.count);
                column.numbers = pool_->take(column.number_count * size_of(spec.kind));
            } else {
                column.numbers = pool_->take(n * size_of(spec.kind));
            }
        }
    }

    void record(std::size_t i) {
        feature_ = -1;
        if (i + ahead < spans_.payloads.size()) prefetch(spans_.payloads[i + ahead]);
        spans_.check(i);
        for (List& list : found_) list.clear();
        for (auto& steps : steps_) steps.clear();
        guess_ = 0;
        walk(spans_.payloads[i], [this](bool in_lists, Bytes bytes, std::uint64_t offset) { entry(in_lists, bytes, offset); });
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
    struct Guess {
        std::string key;
        bool list;
        int spec;
    };

    void entry(bool in_lists, Bytes bytes, std::uint64_t offset) {
        read_entry(bytes, offset, entry_);
        const int spec = look_up(in_lists);
        if (spec < 0) return;
        feature_ = spec;
        const auto k = static_cast<std::size_t>(spec);
        if (in_lists) {
            steps_[k].clear();
            if (entry_.has_value) steps_[k].emplace_back(entry_.value, entry_.value_offset);
            for (const auto& value : entry_.more) steps_[k].push_back(value);
        } else {
            found_[k].clear();
            if (entry_.has_value) merge_feature(entry_.value, entry_.value_offset, found_[k]);
            for (const auto& [value, at] : entry_.more) merge_feature(value, at, found_[k]);
        }
        feature_ = -1;
    }

    // Writers put the keys of every record in one order, so the key at this place of the record before is tried first.
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
        if (!suits(spec.kind, list.kind)) fail(Fault::wrong_kind, static_cast<std::uint64_t>(spec.kind), static_cast<std::uint64_t>(list.kind));
        if (spec.kind == Kind::bytes) {
            const std::size_t added = put_texts(list, column);
            if (spec.count >= 0 && added != static_cast<std::size_t>(spec.count)) fail(Fault::wrong_count, static_cast<std::uint64_t>(spec.count), added);
            if (spec.count < 0) column.offsets.push_back(static_cast<std::int64_t>(column.texts.size()));
        } else if (spec.count >= 0) {
            const auto count = static_cast<std::size_t>(spec.count);
            put_fixed(spec.kind, list, count, column.numbers.data() + i * count * size_of(spec.kind));
        } else {
            put_varying(spec.kind, list, column);
            column.offsets.push_back(static_cast<std::int64_t>(column.number_count));
        }
    }

    static void put_absent(const Spec& spec, Column& column, std::size_t i) {
        if (spec.count < 0) {
            column.offsets.push_back(column.offsets.back());
        } else if (!spec.has_default) {
            fail(Fault::missing, static_cast<std::uint64_t>(spec.count), 0);
        } else if (spec.kind == Kind::bytes) {
            for (const std::string& text : spec.texts) column.texts.push_back(std::as_bytes(std::span(text)));
        } else if (!spec.numbers.empty()) {
            std::memcpy(column.numbers.data() + i * spec.numbers.size(), spec.numbers.data(), spec.numbers.size());
        }
    }

    static std::size_t put_texts(const List& list, Column& column) {
        const std::size_t before = column.texts.size();
        const auto add = [&column](Bytes text) { column.texts.push_back(text); };
        walk_texts(list.piece, add);
        for (const Bytes& piece : list.more) walk_texts(piece, add);
        return column.texts.size() - before;
    }

    void put_fixed(Kind kind, const List& list, std::size_t count, std::byte* to) {
        Bytes run;
        if (sole_packed_run(list, run)) {
            if (kind == Kind::float32 && list.kind == kind && run.size() == count * sizeof(float)) {
                std::memcpy(to, run.data(), run.size());
                return;
            }
            if (kind == Kind::int64 && unpack(run, count, reinterpret_cast<std::int64_t*>(to))) return;
        }
        const std::size_t found = count_values(list);
        if (found != count) fail(Fault::wrong_count, count, found);
        copy_slowly(kind, list, to);
    }

    void put_varying(Kind kind, const List& list, Column& column) {
        const std::size_t count = count_values(list);
        if (count == 0) return;
        copy_slowly(kind, list, Growing(column, pool_, size_of(kind)).extend(count));
    }

    void copy_as_float64(const List& list, std::byte* to) {
        const auto put_all = [to](const auto& numbers) {
            for (std::size_t i = 0; i < numbers.size(); ++i) store_le<double>(to + i * sizeof(double), static_cast<double>(numbers[i]));
        };
        floats_.clear();
        integers_.clear();
        list.kind == Kind::float32 ? append_numbers(list, floats_) : append_numbers(list, integers_);
        list.kind == Kind::float32 ? put_all(floats_) : put_all(integers_);
    }

    void copy_slowly(Kind kind, const List& list, std::byte* to) {
        if (kind == Kind::number) {
            copy_as_float64(list, to);
        } else if (kind == Kind::float32) {
            floats_.clear();
            append_numbers(list, floats_);
            if (!floats_.empty()) std::memcpy(to, floats_.data(), floats_.size() * sizeof(float));
        } else {
            integers_.clear();
            append_numbers(list, integers_);
            if (!integers_.empty()) std::memcpy(to, integers_.data(), integers_.size() * sizeof(std::int64_t));
        }
    }

    void put_steps(const Spec& spec, Column& column, const std::vector<std::pair<Bytes, std::uint64_t>>& parts) {
        std::int64_t steps = column.steps.back();
        for (const auto& [bytes, offset] : parts) {
            walk_steps(bytes, offset, [&](Bytes feature, std::uint64_t at) {
                step_.clear();
                merge_feature(feature, at, step_);
                put_step(spec, column);
                ++steps;
            });
        }
        column.steps.push_back(steps);
    }

    // A step without a list, or with an empty one, holds no values.
    void put_step(const Spec& spec, Column& column) {
        if (step_.kind != Kind::none && !suits(spec.kind, step_.kind))
            fail(Fault::wrong_kind, static_cast<std::uint64_t>(spec.kind), static_cast<std::uint64_t>(step_.kind));
        const std::size_t count = step_.kind == Kind::none ? 0 : count_values(step_);
        if (spec.count >= 0 && count != static_cast<std::size_t>(spec.count)) fail(Fault::wrong_count, static_cast<std::uint64_t>(spec.count), count);
        if (spec.kind == Kind::bytes) {
            put_texts(step_, column);
        } else if (count != 0) {
            copy_slowly(spec.kind, step_, Growing(column, pool_, size_of(spec.kind)).extend(count));
        }
        if (spec.count < 0) column.offsets.push_back(static_cast<std::int64_t>(spec.kind == Kind::bytes ? column.texts.size() : column.number_count));
    }

    static constexpr std::size_t ahead = 1;

    // Records with more keys than this are looked up key by key; the guesses must not grow with what a file says.
    static constexpr std::size_t most_guesses = 4096;

    const Decoder& decoder_;
    const Spans& spans_;
    const std::shared_ptr<Pool>& pool_;
    std::vector<Column>& columns_;
    std::vector<List> found_;
    std::vector<std::vector<std::pair<Bytes, std::uint64_t>>> steps_;
    std::vector<Guess> guesses_;
    std::size_t guess_ = 0;
    Entry entry_;
    List step_;
    std::vector<float> floats_;
    std::vector<std::int64_t> integers_;
    int feature_ = -1;
};

Decoder::Decoder(std::vector<Spec> specs) : specs_(std::move(specs)) {
    for (std::size_t k = 0; k < specs_.size(); ++k) (specs_[k].list ? lists_ : features_)[specs_[k].name] = static_cast<int>(k);
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

} // namespace penstock::example
