#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/pool.hpp"
#include "core/protobuf/example/values.hpp"
#include "core/protobuf/varints.hpp"
#include "core/text/strings.hpp"

namespace headrace::example {

/// A feature to decode.
struct Spec {
    std::string name;
    Kind kind = Kind::none;
    std::int64_t count = -1;        ///< Values per example (per step of a feature list); -1: varies.
    bool text = false;              ///< Values of kind bytes are UTF-8.
    bool list = false;              ///< A feature list of a SequenceExample.
    bool sole = false;              ///< A feature of its name must not have the values of a feature list instead,
                                    ///< nor a feature list those of a feature.
    bool has_default = false;       ///< Whether examples without the feature get a default (fixed counts only):
    std::vector<std::byte> numbers; ///< `count` numbers as in memory, or
    std::vector<std::string> texts; ///< `count` texts.
};

/// One feature of all examples of a batch.
struct Column {
    Pool::Block numbers; ///< float or int64 values, concatenated.
    std::size_t number_count = 0;
    StringBlocks texts;                ///< Values of kind bytes.
    std::vector<std::int64_t> steps;   ///< Feature lists: n + 1 offsets, in steps.
    std::vector<std::int64_t> offsets; ///< If the count varies: one more than there are examples (or steps).
};

/// How much of a batch was read: what the rest takes is expected to be alike.
struct Progress {
    std::size_t records = 0;     ///< In the batch.
    std::size_t total_bytes = 0; ///< Of all payloads.
    std::size_t bytes = 0;       ///< Of those read so far, with the one that is being read.
    std::size_t left = 0;        ///< Of those that are not read, with the one that is being read.

    explicit Progress(const Spans& spans) noexcept : records(spans.payloads.size()) {
        for (const Bytes& payload : spans.payloads) total_bytes += payload.size();
    }

    void begin(Bytes payload) noexcept {
        left = total_bytes - bytes;
        bytes += payload.size();
    }

    /// The bytes of a column that now needs `needed` of them, once all payloads are read.
    [[nodiscard]] std::size_t expected(std::size_t needed) const noexcept;
};

/// Writes the values of one feature, record after record. Where the number of values is fixed, those of record i have
/// their place; all others are appended. The functions that return bool do nothing and return false for values in a
/// form that they do not take.
class ColumnWriter {
  public:
    /// `spec`, `progress` and `pool` must outlive the writer.
    ColumnWriter(const Spec& spec, const Progress& progress, const std::shared_ptr<Pool>& pool, const Cpu& cpu);

    [[nodiscard]] const Spec& spec() const noexcept { return *spec_; }

    /// The values of record i. Throws FormatError{wrong_kind, wrong_count, wire}.
    void put(const List& list, std::size_t i);

    /// Those of a record without the feature. Throws FormatError{missing}.
    void put_absent(std::size_t i);

    /// A packed run of one integer, where the spec says one. The eight bytes that end with the run are readable.
    [[nodiscard]] bool put_integer(Bytes run, std::size_t i) noexcept {
        return read_integer(run, numbers_.data() + i * sizeof(std::int64_t));
    }

    /// A packed run of floats, as many as the spec says.
    [[nodiscard]] bool put_floats(Bytes run, std::size_t i) noexcept {
        if (run.size() != row_bytes_) return false;
        std::byte* const to = numbers_.data() + i * row_bytes_;
        if (run.size() == sizeof(float)) {
            std::memcpy(to, run.data(), sizeof(float));
        } else if (!run.empty()) {
            std::memcpy(to, run.data(), run.size());
        }
        return true;
    }

    /// A packed run of any numbers of the spec's kind, which is not `number`.
    [[nodiscard]] bool put_run(Bytes run, std::size_t i);

    /// One text, where the spec says one. Memory is readable up to `end`.
    void put_text(Bytes text, const std::byte* end) {
        if (text.size() > texts_.room_left()) [[unlikely]]
            reserve_text(text.size());
        texts_.add_near(text, end);
    }

    /// The bytes of a list of texts.
    [[nodiscard]] bool put_texts(Bytes list, const std::byte* end);

    /// The packed run of a step.
    [[nodiscard]] bool add_run(Bytes run);

    /// The same for one integer. The eight bytes that end with the run are readable, unless it has one byte.
    [[nodiscard]] bool add_integer(Bytes run) {
        if (spec_->count >= 0 && spec_->count != 1) return false;
        std::byte* const to = room_for(1);
        if (run.size() == 1 && std::to_integer<unsigned>(run[0]) < 0x80) {
            store_le(to, std::to_integer<std::uint64_t>(run[0]));
        } else if (run.size() < 2 || !read_integer(run, to)) {
            return false;
        }
        ++number_count_;
        end_step();
        return true;
    }

    /// The only text of a step. Memory is readable up to `end`.
    [[nodiscard]] bool add_text(Bytes text, const std::byte* end) {
        if (spec_->count >= 0 && spec_->count != 1) return false;
        put_text(text, end);
        end_step();
        return true;
    }

    /// The values of a step, none if `list` has no kind. Throws like put().
    void add_step(const List& list);

    /// Room for the numbers of `steps` more steps of `values` numbers each; kept by end_steps.
    [[nodiscard]] std::byte* room_for_steps(std::size_t steps, std::size_t values) { return room_for(steps * values); }
    void end_steps(std::size_t steps, std::size_t values);

    /// Ends the feature list of a record that has `steps` steps.
    void end_list(std::size_t steps) { steps_.push_back(steps_.back() + static_cast<std::int64_t>(steps)); }

    /// Drops the values of record i.
    void drop(std::size_t i);

    /// The column of all records.
    [[nodiscard]] Column finish();

  private:
    void end_step() {
        if (spec_->count < 0) offsets_.push_back(end());
    }
    [[nodiscard]] std::int64_t end() const noexcept {
        return static_cast<std::int64_t>(spec_->kind == Kind::bytes ? texts_.count() : number_count_);
    }
    void check_kind(const List& list) const;
    void check_count(std::size_t found) const;
    std::size_t append(const List& list);
    std::size_t append_run(Bytes run);
    std::size_t append_texts(const List& list);
    [[nodiscard]] bool append_usual_texts(Bytes list, const std::byte* end);

    /// Decodes a run of one varint of up to eight bytes. False, with nothing done, for any other.
    [[nodiscard]] static bool read_integer(Bytes run, std::byte* to) noexcept {
        constexpr std::uint64_t marks = 0x0080808080808080; // in all bytes of a varint but the last one
        constexpr std::uint64_t low_bits = 0x7F7F7F7F7F7F7F7F;
        constexpr std::size_t most = sizeof marks;
        if (run.empty() || run.size() > most) return false;
        const std::size_t bits = 8 * (most - run.size());
        const std::uint64_t word = load_le<std::uint64_t>(run.data() + run.size() - most) >> bits;
        if ((word & ~low_bits) != marks >> bits) return false;
        store_le(to, join_sevens(word));
        return true;
    }

    /// Room for `count` more numbers.
    std::byte* room_for(std::size_t count) {
        const std::size_t item = size_of_number(spec_->kind);
        const std::size_t needed = (number_count_ + count) * item;
        if (needed > numbers_.capacity()) [[unlikely]]
            grow_numbers(needed);
        return numbers_.data() + number_count_ * item;
    }
    void grow_numbers(std::size_t needed);
    void reserve_text(std::size_t size);

    const Spec* spec_;
    const Progress* progress_;
    const std::shared_ptr<Pool>* pool_;
    Cpu cpu_;
    std::size_t row_bytes_ = 0; ///< Of the numbers of a record, if their count is fixed.
    Pool::Block numbers_;
    std::size_t number_count_ = 0; ///< Those that were appended.
    StringsBuilder texts_;
    std::vector<std::int64_t> steps_;
    std::vector<std::int64_t> offsets_;
};

} // namespace headrace::example
