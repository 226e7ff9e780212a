#include "core/protobuf/example/columns.hpp"

#include <algorithm>
#include <utility>

namespace headrace::example {
namespace {

[[noreturn]] void fail(Fault fault, std::uint64_t expected, std::uint64_t found) {
    throw FormatError(fault, 0, expected, found);
}

} // namespace

std::size_t Progress::expected(std::size_t needed) const noexcept {
    const double share = static_cast<double>(total_bytes) / static_cast<double>(std::max<std::size_t>(bytes, 1));
    const auto expected = static_cast<std::size_t>(static_cast<double>(needed) * std::max(share, 1.0));
    return std::max(expected + expected / 16, needed + needed / 2);
}

ColumnWriter::ColumnWriter(const Spec& spec, const Progress& progress, const std::shared_ptr<Pool>& pool,
                           const Cpu& cpu)
    : spec_(&spec),
      progress_(&progress),
      pool_(&pool),
      cpu_(cpu) {
    const std::size_t n = progress.records;
    const bool is_fixed = !spec.list && spec.count >= 0;
    const auto count = static_cast<std::size_t>(spec.count);
    if (spec.list) steps_.assign(1, 0), steps_.reserve(n + 1);
    if (spec.count < 0) offsets_.assign(1, 0), offsets_.reserve(n + 1);
    // Every value takes at least one byte of a payload, so a schema that needs more values than bytes fails at some
    // record before they are written. Defaults are in memory already.
    const bool possible = spec.has_default || count == 0 || n <= progress.total_bytes / count;
    const std::size_t values = !is_fixed ? n : possible ? n * count : progress.total_bytes;
    if (spec.kind == Kind::bytes) {
        texts_ = StringsBuilder(pool, values, 0);
    } else {
        numbers_ = pool->take(values * size_of_number(spec.kind));
        if (is_fixed && possible) row_bytes_ = count * size_of_number(spec.kind);
    }
}

void ColumnWriter::put(const List& list, std::size_t i) {
    if (list.kind == Kind::none) return put_absent(i);
    check_kind(list);
    if (spec_->count < 0) {
        append(list);
        offsets_.push_back(end());
    } else if (spec_->kind == Kind::bytes) {
        check_count(append_texts(list));
    } else {
        const auto count = static_cast<std::size_t>(spec_->count);
        std::byte* const to = numbers_.data() + i * count * size_of_number(spec_->kind);
        Part run;
        if (count == 1 && spec_->kind == Kind::int64 && sole_packed_run(list, run) && proto::decode_one(run.bytes, to))
            return;
        check_count(read_numbers(list, spec_->kind, count, to, cpu_));
    }
}

void ColumnWriter::put_absent(std::size_t i) {
    if (spec_->list) {
        steps_.push_back(steps_.back());
    } else if (spec_->count < 0) {
        offsets_.push_back(offsets_.back());
    } else if (!spec_->has_default) {
        fail(Fault::missing, static_cast<std::uint64_t>(spec_->count), 0);
    } else if (spec_->kind == Kind::bytes) {
        for (const std::string& text : spec_->texts) texts_.add(std::as_bytes(std::span(text)));
    } else if (!spec_->numbers.empty()) {
        std::memcpy(numbers_.data() + i * spec_->numbers.size(), spec_->numbers.data(), spec_->numbers.size());
    }
}

bool ColumnWriter::put_run(Bytes run, std::size_t i) {
    if (spec_->count < 0) {
        const std::size_t found = append_run(run);
        if (found == proto::irregular) return false;
        number_count_ += found;
        offsets_.push_back(end());
        return true;
    }
    if (spec_->kind == Kind::float32) return put_floats(run, i);
    const auto count = static_cast<std::size_t>(spec_->count);
    if (run.size() < count) return false;
    return proto::decode_varints(run, numbers_.data() + i * count * sizeof(std::int64_t), count, cpu_) == count;
}

bool ColumnWriter::put_texts(Bytes list, const std::byte* end_of_memory) {
    const std::size_t before = texts_.count();
    const bool is_usual = append_usual_texts(list, end_of_memory);
    if (!is_usual || (spec_->count >= 0 && std::cmp_not_equal(texts_.count() - before, spec_->count))) {
        texts_.cut(before);
        return false;
    }
    if (spec_->count < 0) offsets_.push_back(end());
    return true;
}

bool ColumnWriter::add_run(Bytes run) {
    const std::size_t found = append_run(run);
    if (found == proto::irregular || (spec_->count >= 0 && std::cmp_not_equal(found, spec_->count))) return false;
    number_count_ += found;
    end_step();
    return true;
}

// A step with an empty list, or without one, holds no values.
void ColumnWriter::add_step(const List& list) {
    if (list.kind != Kind::none) check_kind(list);
    const std::size_t added = list.kind == Kind::none ? 0 : append(list);
    if (spec_->count >= 0) check_count(added);
    end_step();
}

void ColumnWriter::end_steps(std::size_t steps, std::size_t values) {
    if (spec_->count >= 0) {
        number_count_ += steps * values;
        return;
    }
    for (; steps != 0; --steps) {
        number_count_ += values;
        offsets_.push_back(end());
    }
}

void ColumnWriter::drop(std::size_t i) {
    std::size_t rows = i; // what offsets or fixed counts divide: records or steps
    if (spec_->list) {
        steps_.resize(i + 1);
        rows = static_cast<std::size_t>(steps_[i]);
    }
    if (spec_->count < 0) offsets_.resize(rows + 1);
    const std::size_t values =
        spec_->count < 0 ? static_cast<std::size_t>(offsets_[rows]) : rows * static_cast<std::size_t>(spec_->count);
    if (spec_->kind == Kind::bytes) {
        texts_.cut(values);
    } else {
        number_count_ = values;
    }
}

Column ColumnWriter::finish() {
    Column column;
    if (spec_->kind == Kind::bytes) {
        column.texts = texts_.finish();
    } else {
        const bool is_fixed = !spec_->list && spec_->count >= 0;
        column.numbers = std::move(numbers_);
        column.number_count = is_fixed ? progress_->records * static_cast<std::size_t>(spec_->count) : number_count_;
    }
    column.steps = std::move(steps_);
    column.offsets = std::move(offsets_);
    return column;
}

void ColumnWriter::check_kind(const List& list) const {
    const bool suits = list.kind == spec_->kind || (spec_->kind == Kind::number && list.kind != Kind::bytes);
    if (!suits) fail(Fault::wrong_kind, static_cast<std::uint64_t>(spec_->kind), static_cast<std::uint64_t>(list.kind));
}

void ColumnWriter::check_count(std::size_t found) const {
    if (std::cmp_not_equal(found, spec_->count))
        fail(Fault::wrong_count, static_cast<std::uint64_t>(spec_->count), found);
}

/// Appends the values of a list, and returns how many there are.
std::size_t ColumnWriter::append(const List& list) {
    if (spec_->kind == Kind::bytes) return append_texts(list);
    Part run;
    if (list.kind == spec_->kind && sole_packed_run(list, run)) {
        const std::size_t found = append_run(run.bytes);
        if (found != proto::irregular) {
            number_count_ += found;
            return found;
        }
    }
    const std::size_t count = count_values(list, cpu_);
    std::byte* const to = room_for(count);
    number_count_ += count;
    return read_numbers(list, spec_->kind, count, to, cpu_);
}

/// Writes the numbers of a packed run after those of the column, and returns how many there are.
std::size_t ColumnWriter::append_run(Bytes run) {
    // Counting long runs first saves memory: each varint has up to ten bytes, and takes eight in the column.
    constexpr std::size_t most_uncounted = 4096;
    if (spec_->kind == Kind::float32) {
        const std::size_t count = run.size() / sizeof(float);
        if (run.size() % sizeof(float) != 0) return proto::irregular;
        std::byte* const to = room_for(count);
        if (!run.empty()) std::memcpy(to, run.data(), run.size());
        return count;
    }
    const std::size_t room = run.size() <= most_uncounted ? run.size() : proto::count_varints(run, cpu_);
    return proto::decode_varints(run, room_for(room), room, cpu_);
}

std::size_t ColumnWriter::append_texts(const List& list) {
    const std::size_t before = texts_.count();
    const Bytes bytes = list.piece.bytes;
    if (list.more.empty() && append_usual_texts(bytes, bytes.data() + bytes.size())) return texts_.count() - before;
    texts_.cut(before);
    each_text(list, [this](Bytes text) { put_text(text, text.data() + text.size()); });
    return texts_.count() - before;
}

/// Appends the values of a list that holds nothing else. False for any other list: what was appended is then to be
/// dropped.
bool ColumnWriter::append_usual_texts(Bytes list, const std::byte* end_of_memory) {
    while (!list.empty()) {
        if (list[0] != std::byte{0x0A}) return false;
        Bytes text;
        list = list.subspan(1);
        if (!proto::take_counted(list, text)) return false;
        put_text(text, end_of_memory);
    }
    return true;
}

/// A column grows to what all payloads take if the rest is like those read so far, so it is rarely moved. This is
/// bounded by the bytes there are, because every number takes at least one.
void ColumnWriter::grow_numbers(std::size_t needed) {
    const std::size_t used = number_count_ * size_of_number(spec_->kind);
    Pool::Block larger = (*pool_)->take(progress_->expected(needed) + 256);
    if (used != 0) std::memcpy(larger.data(), numbers_.data(), used);
    numbers_ = std::move(larger);
}

/// The same for bytes of texts. A column that holds most of the bytes gets what all payloads can hold.
void ColumnWriter::reserve_text(std::size_t size) {
    const std::size_t used = texts_.size();
    texts_.make_room(std::min(progress_->expected(used + size) - used, size + progress_->left));
}

} // namespace headrace::example
